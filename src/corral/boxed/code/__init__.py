"""What runs a program inside its box: one file for each engine."""
