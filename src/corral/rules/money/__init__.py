"""Prices, limits and quotas."""
