-- What checks found out about a tree, so that nothing is run twice in the same surroundings.
CREATE TABLE suites (
  key     TEXT PRIMARY KEY,                -- hash of tree, checks, setup, sandbox level and scope
  at      REAL NOT NULL,
  results BLOB NOT NULL                    -- list of CheckResult as JSON
) STRICT, WITHOUT ROWID;
