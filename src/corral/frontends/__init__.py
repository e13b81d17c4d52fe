"""LISTEN: each front end turns its own requests into Engine calls and nothing else."""
