"""What starts by itself: queued runs, schedules, triggers."""
