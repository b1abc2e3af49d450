"""What would stop an experiment, or make it too large, found out before any job waits in a queue."""
