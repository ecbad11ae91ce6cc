"""Operators of ai.onnx.ml: trees, text, tables."""
