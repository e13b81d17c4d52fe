"""ACT: where attempts run."""
