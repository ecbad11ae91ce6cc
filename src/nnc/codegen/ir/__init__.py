"""The typed IR builder and what it stands on: the description of a processor, mathematics on vectors."""
