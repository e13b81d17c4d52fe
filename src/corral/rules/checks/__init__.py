"""What checks prove."""
