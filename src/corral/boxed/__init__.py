"""Programs that run inside the box."""
