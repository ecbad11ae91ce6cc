"""Constants, shapes, branches, loops, sequences."""
