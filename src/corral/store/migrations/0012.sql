-- The server: who may use it, what waits to be taken up, what starts by itself, whom it tells.
CREATE TABLE tokens (
  id      TEXT PRIMARY KEY,
  name    TEXT NOT NULL,
  hash    TEXT NOT NULL UNIQUE,            -- SHA-256; the token itself is shown once and never stored
  scopes  TEXT NOT NULL,                   -- of read, run, merge, admin, with commas
  created REAL NOT NULL,
  used    REAL,
  revoked REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE logins (                      -- browsers that showed a token
  hash    TEXT PRIMARY KEY,                -- SHA-256 of the cookie
  token   TEXT NOT NULL REFERENCES tokens (id),
  created REAL NOT NULL,
  until   REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE waiting_runs (                -- runs that no process has taken up yet
  run      TEXT PRIMARY KEY REFERENCES runs (id),
  priority INTEGER NOT NULL,               -- more is sooner
  place    REAL NOT NULL,                  -- among equals less is sooner
  by       TEXT NOT NULL,
  at       REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX waiting_runs_order ON waiting_runs (priority DESC, place);
CREATE INDEX runs_open ON runs (status) WHERE status IN ('queued', 'running', 'paused', 'waiting');

CREATE TABLE submissions (                 -- by idempotency key: the same request twice is one run
  key    TEXT PRIMARY KEY,                 -- token and what the client chose
  digest TEXT NOT NULL,
  run    TEXT NOT NULL,
  at     REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX submissions_old ON submissions (at);

CREATE TABLE server (                      -- single values: who serves this store, whether the queue is held ...
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
  name    TEXT PRIMARY KEY,
  record  BLOB NOT NULL,                   -- ScheduleRecord as JSON
  next_at REAL                             -- NULL: held
) STRICT, WITHOUT ROWID;

CREATE TABLE triggers (
  name   TEXT PRIMARY KEY,
  record BLOB NOT NULL                     -- TriggerRecord as JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE starts (                      -- runs that a schedule or a trigger started: what its limits are held against
  run  TEXT PRIMARY KEY,
  what TEXT NOT NULL,                      -- schedule NAME, trigger NAME
  at   REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX starts_of ON starts (what, at);

CREATE TABLE webhooks (
  id     TEXT PRIMARY KEY,
  record BLOB NOT NULL,                    -- WebhookRecord as JSON
  seen   INTEGER NOT NULL                  -- sequence up to which events were looked at for it
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
  id      TEXT PRIMARY KEY,
  webhook TEXT NOT NULL,
  type    TEXT NOT NULL,
  body    BLOB NOT NULL,
  state   TEXT NOT NULL,                   -- waiting, delivered, dead
  tries   INTEGER NOT NULL DEFAULT 0,
  next_at REAL NOT NULL,
  at      REAL NOT NULL,
  answer  TEXT NOT NULL DEFAULT ''         -- status or trouble of the last try
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_waiting ON deliveries (next_at) WHERE state = 'waiting';
CREATE INDEX deliveries_of ON deliveries (webhook, at);
CREATE INDEX runs_limited ON runs (id) WHERE status = 'limited';
