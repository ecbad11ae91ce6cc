"""What runs again instead of being kept: schedules with repeats, the search for them, and a limit on memory."""
