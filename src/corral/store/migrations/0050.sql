-- Programs that ran, with their calls; and how often each stored tool was used.
CREATE TABLE program_runs (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    repo TEXT NOT NULL,
    run TEXT, -- the run it was part of
    tool TEXT, -- the stored tool it is
    hash TEXT NOT NULL,
    status TEXT NOT NULL,
    record TEXT NOT NULL -- the program, its input, its calls and what came of it
) STRICT;
CREATE INDEX program_runs_by_repo ON program_runs (repo, created);
CREATE TABLE tool_uses (
    place TEXT NOT NULL, -- the folder that the tool lies in
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    last_used REAL,
    PRIMARY KEY (place, name, hash)
) STRICT;
