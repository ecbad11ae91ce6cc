"""Movement of elements."""
