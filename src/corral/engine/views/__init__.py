"""What users look at: runs, logs, changes, pictures; and what is kept of them."""
