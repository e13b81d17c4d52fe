-- Posts that runs owe to web addresses: one for each run, when it is over or waits for an answer.
CREATE TABLE callbacks (
  run     TEXT PRIMARY KEY,
  id      TEXT NOT NULL,                   -- of the post; the same at every try
  url     TEXT NOT NULL,
  state   TEXT NOT NULL,                   -- asked, waiting, delivered, dead
  body    BLOB NOT NULL DEFAULT x'',
  tries   INTEGER NOT NULL DEFAULT 0,
  next_at REAL NOT NULL DEFAULT 0,
  answer  TEXT NOT NULL DEFAULT ''         -- status or trouble of the last try
) STRICT, WITHOUT ROWID;
CREATE INDEX callbacks_open ON callbacks (state) WHERE state IN ('asked', 'waiting');
