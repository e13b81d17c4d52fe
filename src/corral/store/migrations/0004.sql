-- Agents whose quota is used up, until when: every run of this person heeds it.
CREATE TABLE cooldowns (
  agent  TEXT PRIMARY KEY,
  until  REAL NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
