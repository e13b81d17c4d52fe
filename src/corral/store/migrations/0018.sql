-- The epoch of a run is raised each time another process takes it over; a write of an earlier owner is refused.
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN clock TEXT NOT NULL DEFAULT '';        -- when it was made, on a clock that nobody sets
ALTER TABLE runs ADD COLUMN seconds REAL;                          -- how long it took; NULL until it is over
ALTER TABLE attempts ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;  -- of the owner that wrote it last
