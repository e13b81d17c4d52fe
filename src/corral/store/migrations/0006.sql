-- Letters between agents at work, and runs that were spawned by an attempt of another.
CREATE TABLE mail (
  id             INTEGER PRIMARY KEY,
  run            TEXT NOT NULL,             -- of the box that it lies in
  box            TEXT NOT NULL,             -- a node, or one attempt
  sender         TEXT NOT NULL,             -- the name to answer to
  sender_run     TEXT NOT NULL,
  sender_attempt TEXT NOT NULL,
  thread         TEXT NOT NULL,
  priority       INTEGER NOT NULL,
  text           TEXT NOT NULL,
  at             REAL NOT NULL,
  holder         TEXT,                      -- the attempt that took it and has not acknowledged it yet
  lease_until    REAL NOT NULL DEFAULT 0,
  deliveries     INTEGER NOT NULL DEFAULT 0,
  read_at        REAL                       -- acknowledged
) STRICT;
CREATE INDEX mail_waiting ON mail (run, box, priority DESC, id) WHERE read_at IS NULL;
CREATE INDEX mail_of_sender ON mail (sender_attempt);
CREATE INDEX mail_of_thread ON mail (thread);
CREATE INDEX mail_read ON mail (read_at) WHERE read_at IS NOT NULL;

CREATE TABLE children (
  run        TEXT PRIMARY KEY REFERENCES runs (id),
  root       TEXT NOT NULL,                 -- the run at the top
  parent     TEXT NOT NULL,
  node       TEXT NOT NULL,                 -- of the parent
  attempt    TEXT NOT NULL,                 -- of the parent: it spawned the run, and the run ends with it
  depth      INTEGER NOT NULL,              -- 1: below the root
  budget_usd REAL,
  at         REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX children_of_attempt ON children (attempt);
CREATE INDEX children_of_root ON children (root);
CREATE INDEX children_of_parent ON children (parent);
