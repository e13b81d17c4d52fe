"""The HTTP API, version 1: each file has the routes of one concern."""
