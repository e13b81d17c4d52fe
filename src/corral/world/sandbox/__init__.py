"""Confine a command: an empty root, a workspace, a private home, and nothing else that it could write."""
