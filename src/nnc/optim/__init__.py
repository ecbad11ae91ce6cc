"""`nnc.nn.optim` under the name by which PyTorch, MLX and optax import theirs: `import nnc.optim as optim`."""

from typing import TYPE_CHECKING

from nnc.nn import optim
from nnc.nn.optim import *

if not TYPE_CHECKING:
    # A type checker goes by what there is.
    __getattr__ = optim.__getattr__
