"""CONNECT: the rules with the world."""
