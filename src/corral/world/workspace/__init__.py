"""Workspaces of attempts and the files in them."""
