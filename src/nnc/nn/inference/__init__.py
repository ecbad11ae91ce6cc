"""Inference: frozen generation, quantization."""
