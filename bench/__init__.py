"""Each number we promise, as a ratio measured in one run against a named baseline."""
