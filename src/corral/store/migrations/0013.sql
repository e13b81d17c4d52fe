-- Limits on how many attempts are at work at once, of all runs and processes of this store.
CREATE TABLE slots (                       -- attempts at work
  attempt TEXT PRIMARY KEY,
  run     TEXT NOT NULL,
  owner   TEXT NOT NULL,                   -- the process that drives it
  agent   TEXT NOT NULL,
  repo    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX slots_of ON slots (run);

CREATE TABLE slot_wants (                  -- runs that would begin more, if others were not at work
  run      TEXT NOT NULL,
  agent    TEXT NOT NULL,
  owner    TEXT NOT NULL,
  repo     TEXT NOT NULL,
  count    INTEGER NOT NULL,
  priority INTEGER NOT NULL,               -- more is sooner
  since    REAL NOT NULL,                  -- since when, or since it last got one
  limits   BLOB NOT NULL,                  -- SlotLimits as JSON
  PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;
