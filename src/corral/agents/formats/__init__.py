"""Formats and conventions that several agent programs share."""
