"""What waits for a person, how they learn of it, and what follows from their answer."""
