"""Where runs are remembered: one SQLite file, all SQL in queries.sql."""
