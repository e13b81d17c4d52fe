"""Prompts, and what one agent hands to the next."""
