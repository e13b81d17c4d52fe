"""Names, secrets and texts."""
