"""What is merged, and how changes are shown."""
