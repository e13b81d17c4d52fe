"""Corral runs any coding agent on any task: isolated, budgeted, proven, merged."""

__version__ = "0.1.0"
