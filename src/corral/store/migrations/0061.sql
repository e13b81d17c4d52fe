-- The engines that serve this store: several, on several machines. Each says again and again that it is there.
CREATE TABLE engines (
  owner   TEXT PRIMARY KEY,                -- a process: machine, start of the machine, process id, its start
  place   TEXT NOT NULL,                   -- machine and state folder: one engine serves each
  address TEXT NOT NULL,
  resumes INTEGER NOT NULL,                -- continues by itself with runs that were left
  started REAL NOT NULL,
  until   REAL NOT NULL                    -- it counts as gone from then on, unless it is heard of again
) STRICT;
DELETE FROM server WHERE name = 'serving';
