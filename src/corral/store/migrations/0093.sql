-- Which machine has which repository: noted when a run is made there, and when an engine finds the repository of a run.
CREATE TABLE repositories (
  git_dir TEXT NOT NULL,                   -- its path on that machine
  place   TEXT NOT NULL,                   -- machine and state folder, as of engines
  at      REAL NOT NULL,
  PRIMARY KEY (git_dir, place)
) STRICT, WITHOUT ROWID;
