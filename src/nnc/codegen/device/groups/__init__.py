"""Kernels of whole groups of threads, with memory that a group shares: what decides the time of most networks.

near         the memory of a group, its threads, and waiting for each other
products     matrix products in tiles
table        which generator has a kernel of groups
"""
