"""The version of this package, for all who tell it."""

__version__ = "0.1.0"
