-- The epoch of a run is raised each time another process takes it over; a write of an earlier owner is refused.
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;
ALTER TABLE attempts ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;  -- of the owner that wrote it last
