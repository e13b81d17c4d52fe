"""How work comes back into a branch, and is taken out again."""
