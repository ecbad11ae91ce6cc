"""Passes that change how numbers are kept: 16 bits, 8 bits, sums of integers."""
