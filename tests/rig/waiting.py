"""Wait for a condition, never for a time."""

from corral.testing.stage import until

__all__ = ["until"]
