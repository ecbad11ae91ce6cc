"""What other projects keep in a package of this name: PyTorch's `utils.data` and `utils.checkpoint`, MLX's trees.

from nnc.utils.data import DataLoader, TensorDataset
from nnc.utils import tree_flatten, tree_map, tree_unflatten
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from nnc.utils.paths import tree_flatten, tree_map, tree_map_with_path, tree_unflatten
from nnc.vocabulary.answers import unknown_name

if TYPE_CHECKING:
    from nnc.utils import checkpoint as checkpoint
    from nnc.utils import data as data

__all__ = ["tree_flatten", "tree_map", "tree_map_with_path", "tree_unflatten"]

if not TYPE_CHECKING:
    # `nnc.utils.data.DataLoader` behind `import nnc`, as PyTorch's programs write it.
    def __getattr__(name: str) -> ModuleType:
        if name in ("data", "checkpoint"):
            return import_module(f"nnc.utils.{name}")
        raise unknown_name("module 'nnc.utils'", name, {}, lambda: globals(), "nnc.utils.")
