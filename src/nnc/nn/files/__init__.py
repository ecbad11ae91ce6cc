"""Models and tensors in files: `save` and `load` here, checkpoints, descriptions without code, names of others."""

from nnc.nn.files.files import load, save, savez, savez_compressed

__all__ = ["load", "save", "savez", "savez_compressed"]
