"""The Agent Client Protocol, from the side of the client."""
