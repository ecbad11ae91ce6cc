"""PyTorch's schedules under PyTorch's address: `from nnc.optim.lr_scheduler import StepLR`."""

from typing import TYPE_CHECKING

from nnc.nn.optimization import lr_scheduler
from nnc.nn.optimization.lr_scheduler import *

if not TYPE_CHECKING:
    # A type checker goes by what there is.
    __getattr__ = lr_scheduler.__getattr__
