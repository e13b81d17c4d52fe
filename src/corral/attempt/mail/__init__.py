"""Mail of one attempt."""
