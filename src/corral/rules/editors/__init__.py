"""Configuration of editors: which files each has, what Corral puts into them, how that joins what is there."""
