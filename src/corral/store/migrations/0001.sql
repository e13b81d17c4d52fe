-- Runs, nodes, attempts, events, orders.
CREATE TABLE runs (
  id          TEXT PRIMARY KEY,
  status      TEXT NOT NULL,
  reason      TEXT,
  plan        BLOB NOT NULL,              -- RunPlan as JSON; holds no secret
  created     REAL NOT NULL,
  ended       REAL,
  owner       TEXT,                       -- host/boot/pid/start of the process that drives it
  lease_until REAL NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE nodes (
  run    TEXT NOT NULL REFERENCES runs (id),
  id     TEXT NOT NULL,
  place  INTEGER NOT NULL,                -- order in the flow
  status TEXT NOT NULL,
  reason TEXT,
  winner TEXT,
  why    TEXT,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  id      TEXT PRIMARY KEY,
  run     TEXT NOT NULL REFERENCES runs (id),
  node    TEXT NOT NULL,
  place   INTEGER NOT NULL,               -- 1, 2, 3 ... within the run
  agent   TEXT NOT NULL,
  status  TEXT NOT NULL,
  phase   TEXT NOT NULL,
  usd     REAL,
  started REAL NOT NULL,
  ended   REAL,
  record  BLOB NOT NULL                   -- AttemptRecord as JSON
) STRICT;
CREATE UNIQUE INDEX attempts_of_run ON attempts (run, place);

CREATE TABLE events (                      -- append only
  seq     INTEGER PRIMARY KEY,
  run     TEXT NOT NULL,
  node    TEXT,
  attempt TEXT,
  at      REAL NOT NULL,
  body    BLOB NOT NULL
) STRICT;
CREATE INDEX events_of_run ON events (run, seq);

CREATE TABLE orders (
  id    INTEGER PRIMARY KEY,
  run   TEXT NOT NULL,
  verb  TEXT NOT NULL,
  by    TEXT NOT NULL,
  at    REAL NOT NULL,
  taken REAL
) STRICT;
CREATE INDEX orders_waiting ON orders (run) WHERE taken IS NULL;
