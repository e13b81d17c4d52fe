"""Everything done with git."""
