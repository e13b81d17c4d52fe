-- The inbox: what waits for a person, and who answered what.
CREATE TABLE inbox (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,  -- short enough to be typed; never given twice
  key         TEXT NOT NULL UNIQUE,       -- what it is about: a run that is resumed does not ask twice
  run         TEXT NOT NULL,
  node        TEXT,
  attempt     TEXT,
  kind        TEXT NOT NULL,              -- approval, question, conflict, failure
  about       TEXT NOT NULL,              -- gate, budget, merge, scope, tool, plan, limit ...
  text        TEXT NOT NULL,
  context     TEXT NOT NULL,
  choices     BLOB NOT NULL,              -- list as JSON; empty: any words
  standard    TEXT NOT NULL,              -- the answer when nobody gives one
  deadline    REAL NOT NULL,
  created     REAL NOT NULL,
  answered_at REAL,
  answer      TEXT,
  answered_by TEXT,
  outcome     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX inbox_waiting ON inbox (deadline) WHERE answered_at IS NULL;
CREATE INDEX inbox_of_run ON inbox (run);
