"""Normalization and softmax."""
