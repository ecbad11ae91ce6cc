"""Programs that are made of a file, here or by another process: making, weights made beforehand, one at work."""
