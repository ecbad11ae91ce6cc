"""Methods of arrays in the words of several projects: `x.sum(dim=1)`, `x.softmax(axis=-1)`.

Doors translate them at run time (`nnc.dynamic.arrays.located`). Type checkers see the stub beside this file, which has
each method in each school's words; `docs/site/signatures.py` writes it.
"""

from nnc.dynamic.arrays.pytorch_methods import PyTorchMethods

WordedMethods = PyTorchMethods
