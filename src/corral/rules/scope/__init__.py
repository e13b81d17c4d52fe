"""What an attempt may read, write and reach."""
