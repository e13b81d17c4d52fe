-- Pull requests of runs; those that are looked after, with the time of the next look; issues found by their label.
CREATE TABLE pull_requests (
  run    TEXT PRIMARY KEY,
  record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE follows (
  run     TEXT PRIMARY KEY,
  record  BLOB NOT NULL,
  next_at REAL                             -- null: it is over
) STRICT, WITHOUT ROWID;
CREATE INDEX follows_due ON follows (next_at) WHERE next_at IS NOT NULL;
CREATE TABLE issue_work (
  repository TEXT NOT NULL,
  number     TEXT NOT NULL,
  run        TEXT,                         -- null: ignored
  record     BLOB NOT NULL,
  PRIMARY KEY (repository, number)
) STRICT, WITHOUT ROWID;
