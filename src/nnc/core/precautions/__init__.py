"""Precautions: atomic files, caches with limits, interrupts, forks."""
