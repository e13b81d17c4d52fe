"""Which of several attempts is the best."""
