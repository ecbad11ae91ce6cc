"""The typed IR builder and what it stands on: llvmlite, the processor, mathematics on vectors."""
