"""LISTEN: an agent of the Agent Client Protocol on stdio, for editors."""
