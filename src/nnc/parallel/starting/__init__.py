"""What waits for a rank that was started."""
