-- The ledger: what is held for attempts at work and what was spent, one line each; with it, the history of all attempts.
CREATE TABLE ledger (
  attempt     TEXT PRIMARY KEY,
  run         TEXT NOT NULL,
  node        TEXT NOT NULL,
  agent       TEXT NOT NULL,
  model       TEXT,
  role        TEXT,
  type        TEXT,                       -- of the task
  repo        TEXT NOT NULL,
  owner       TEXT NOT NULL DEFAULT '',   -- host/boot/pid/start of the process that holds it
  reserved    REAL NOT NULL DEFAULT 0,    -- 0 once it is settled
  spent       REAL NOT NULL DEFAULT 0,    -- so far, and then for good: what it is charged
  source      TEXT NOT NULL DEFAULT 'unknown',
  at          REAL NOT NULL,              -- when it was reserved: the day and the month it counts for
  settled     REAL,
  status      TEXT NOT NULL DEFAULT 'running',
  seconds     REAL NOT NULL DEFAULT 0,
  input       INTEGER NOT NULL DEFAULT 0, -- tokens
  output      INTEGER NOT NULL DEFAULT 0,
  cache_read  INTEGER NOT NULL DEFAULT 0,
  cache_write INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX ledger_by_time ON ledger (at);
CREATE INDEX ledger_of_run ON ledger (run);
CREATE INDEX ledger_open ON ledger (owner) WHERE settled IS NULL;

CREATE TABLE limits (                     -- set by `corral budget set`
  window TEXT NOT NULL,                   -- run, day, month, ceiling
  agent  TEXT NOT NULL,                   -- '': all
  repo   TEXT NOT NULL,                   -- '': all
  usd    REAL NOT NULL,
  by     TEXT NOT NULL,
  at     REAL NOT NULL,
  PRIMARY KEY (window, agent, repo)
) STRICT, WITHOUT ROWID;

CREATE TABLE allowances (                 -- a person let one run go past a limit
  run    TEXT NOT NULL,
  window TEXT NOT NULL,
  usd    REAL NOT NULL,
  by     TEXT NOT NULL,
  at     REAL NOT NULL
) STRICT;
CREATE INDEX allowances_of_run ON allowances (run);

CREATE TABLE ancestors (                  -- of runs that other runs started; a run counts for all above it
  run      TEXT NOT NULL,
  ancestor TEXT NOT NULL,
  PRIMARY KEY (ancestor, run)
) STRICT, WITHOUT ROWID;

-- sqlite only
INSERT INTO ledger (attempt, run, node, agent, model, role, type, repo, spent, source, at, settled, status, seconds,
  input, output, cache_read, cache_write)
SELECT a.id, a.run, a.node, a.agent, json_extract(a.record, '$.attempt.model'), json_extract(a.record, '$.attempt.role'),
  json_extract(r.plan, '$.flow.nodes[0].task.type'), json_extract(r.plan, '$.repo'),
  coalesce(a.usd, 0), coalesce(json_extract(a.record, '$.attempt.cost.source'), 'unknown'), a.started,
  coalesce(a.ended, a.started), a.status, coalesce(json_extract(a.record, '$.attempt.seconds'), 0),
  coalesce(json_extract(a.record, '$.attempt.tokens.input'), 0), coalesce(json_extract(a.record, '$.attempt.tokens.output'), 0),
  coalesce(json_extract(a.record, '$.attempt.tokens.cache_read'), 0),
  coalesce(json_extract(a.record, '$.attempt.tokens.cache_write'), 0)
FROM attempts a JOIN runs r ON r.id = a.run;

CREATE TABLE quotas (                     -- limits that agents ran into, as they told them
  seq     INTEGER PRIMARY KEY,
  agent   TEXT NOT NULL,
  model   TEXT,
  at      REAL NOT NULL,
  until   REAL,                           -- NULL: it did not say
  message TEXT NOT NULL
) STRICT;
CREATE INDEX quotas_of_agent ON quotas (agent, at);
