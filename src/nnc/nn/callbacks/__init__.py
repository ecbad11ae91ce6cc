"""Callbacks of training."""
