"""Wait for a condition, never for a time."""

from corral.testing.watching import until

__all__ = ["until"]
