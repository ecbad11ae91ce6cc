"""Convolution, pooling and resampling."""
