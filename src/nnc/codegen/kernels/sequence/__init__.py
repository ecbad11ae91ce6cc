"""Attention, recurrence and positions."""
