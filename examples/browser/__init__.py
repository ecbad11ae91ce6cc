"""Digits drawn with the mouse, told by a network in the page, and trained further there."""
