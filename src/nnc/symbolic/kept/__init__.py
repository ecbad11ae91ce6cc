"""Compiled graphs that stay on the disk for other processes."""
