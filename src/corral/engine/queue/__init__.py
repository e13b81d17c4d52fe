"""What goes on by itself: queued runs, schedules, triggers."""
