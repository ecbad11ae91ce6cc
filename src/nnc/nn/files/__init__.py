"""Models and tensors in files: `save` and `load` here, checkpoints, descriptions without code, names of others."""

from nnc.nn.files.files import load, save

__all__ = ["load", "save"]
