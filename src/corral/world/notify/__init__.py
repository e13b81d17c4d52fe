"""Notices to the user."""
