"""What shows that work is good: checks, receipts, scores, and which of several is best."""
