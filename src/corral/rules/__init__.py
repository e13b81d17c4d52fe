"""DECIDE: facts in, decisions out; no I/O, no clock, no randomness."""
