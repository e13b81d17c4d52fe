-- Merges: each is stored before a ref moves, so that one that was cut off is finished, and any can be undone.
CREATE TABLE merges (
  id      INTEGER PRIMARY KEY,
  run     TEXT NOT NULL,
  git_dir TEXT NOT NULL,
  state   TEXT NOT NULL,                   -- begun, merged, conflict, undoing, undone
  at      REAL NOT NULL,
  record  BLOB NOT NULL                    -- MergeRecord as JSON
) STRICT;
CREATE INDEX merges_of_run ON merges (run, id);
CREATE INDEX merges_unfinished ON merges (git_dir) WHERE state IN ('begun', 'undoing');

-- A queue of runs to land in order, and what is known of it already.
CREATE TABLE queues (
  id      INTEGER PRIMARY KEY,
  git_dir TEXT NOT NULL,
  over    INTEGER NOT NULL,
  record  BLOB NOT NULL                    -- QueueRecord as JSON
) STRICT;
CREATE INDEX queues_open ON queues (git_dir) WHERE over = 0;
