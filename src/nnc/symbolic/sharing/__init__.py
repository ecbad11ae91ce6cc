"""What graphs have in common: values that several compute alike, and graphs that differ by their sizes alone."""
