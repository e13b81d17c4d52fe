"""What waits for a user, how they learn of it, and what follows from their answer."""
