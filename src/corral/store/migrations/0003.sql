-- Claims on files, by attempts that share a workspace.
CREATE TABLE claims (
  place     INTEGER PRIMARY KEY,           -- order of asking
  space     TEXT NOT NULL,                 -- the workspace that is shared
  run       TEXT NOT NULL,
  attempt   TEXT NOT NULL,
  owner     TEXT NOT NULL,                 -- host/boot/pid/start of the process that drives the attempt
  path      TEXT NOT NULL,                 -- below the workspace; a folder means all in it
  exclusive INTEGER NOT NULL,
  held      INTEGER NOT NULL,              -- 0: waits
  at        REAL NOT NULL
) STRICT;
CREATE UNIQUE INDEX claims_of_attempt ON claims (space, attempt, path, exclusive);
