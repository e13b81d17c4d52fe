"""CONNECT: one attempt, from its reservation to its receipt."""
