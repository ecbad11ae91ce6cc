"""Kernels of 16 bits by instructions that multiply matrices.

slices               operands in the memory of a group, several slices of a sum at once
matrix_sums          sums of a tile, by warps or by four warps together
matrix_forms         which tiles a device has, and which one is taken
matrix_products      products
matrix_correlations  convolutions
group_attention      attention
"""
