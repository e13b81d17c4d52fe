"""The tools of an agent at work."""
