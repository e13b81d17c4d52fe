"""ACT: where runs are remembered."""
