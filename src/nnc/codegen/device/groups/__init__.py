"""Kernels of whole groups of threads, with memory that a group shares: what decides the time of most networks.

near         the memory of a group, its threads, and waiting for each other
tiles        sums of a tile, in slices
results      bias, epilogue, rounding
products     matrix products in tiles
matrices     products, convolutions and attention of 16 bits by instructions that multiply matrices
correlations     convolutions as products of pixels
attentions       attention in f32 and over what a generation keeps
group_rows       softmax and norms of long rows
device_rows  which generator has a kernel of groups
"""
