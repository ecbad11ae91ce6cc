"""Operators made of others."""
