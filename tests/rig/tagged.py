"""Processes by what stands in their environment, wherever they run."""

from corral.testing.watching import tagged

__all__ = ["tagged"]
