"""Processes by what stands in their environment, wherever they run."""

from corral.testing.watching import tagged_processes

__all__ = ["tagged_processes"]
