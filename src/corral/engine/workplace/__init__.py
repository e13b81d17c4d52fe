"""What an attempt works in: its box, its network, its home, what it is told, what is kept of its files."""
