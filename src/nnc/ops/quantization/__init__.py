"""Quantization."""
