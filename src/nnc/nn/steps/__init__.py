"""Compiled steps of a model: their graphs, sizes, programs and memory."""
