-- Conversations in editors: what was asked for in a folder, one run after another.
CREATE TABLE chats (
  id TEXT PRIMARY KEY,
  folder TEXT NOT NULL,
  updated REAL NOT NULL,
  empty INTEGER NOT NULL,   -- nothing was asked for yet
  record BLOB NOT NULL
) STRICT;
CREATE INDEX chats_of_folder ON chats (folder, updated);
