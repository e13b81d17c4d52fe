"""What passes between the engine and an agent at work: its lines, its turns, its tools, its letters."""
