"""Processes by what stands in their environment, wherever they run."""

from corral.testing.stage import tagged_processes

__all__ = ["tagged_processes"]
