-- Accounts of agents: what each spent, how its windows stand, and when it was asked.
ALTER TABLE ledger ADD COLUMN account TEXT;

CREATE TABLE quota_windows (               -- as a provider told them last
  agent  TEXT NOT NULL,                    -- AGENT or AGENT@ACCOUNT, as in quotas and cooldowns
  name   TEXT NOT NULL,
  used   REAL,                             -- share, 0 to 1; NULL: it does not say
  resets REAL,
  at     REAL NOT NULL,
  PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (                    -- of the last minute, where settings limit them
  agent TEXT NOT NULL,
  at    REAL NOT NULL
) STRICT;
CREATE INDEX requests_of ON requests (agent, at);
