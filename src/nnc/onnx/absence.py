"""Says what is missing where the package `onnx` is not installed."""

from importlib.util import find_spec

if find_spec("onnx") is None:
    raise ImportError("nnc.onnx: got no package onnx; need it to read models. Fix: pip install 'nnc[onnx]'")
