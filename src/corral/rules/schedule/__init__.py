"""What happens next in a run."""
