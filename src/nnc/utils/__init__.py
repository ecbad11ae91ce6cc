"""What other projects keep in a package of this name: PyTorch's `utils.data` and `utils.checkpoint`, MLX's trees.

from nnc.utils.data import DataLoader, TensorDataset
from nnc.utils import tree_flatten, tree_map, tree_unflatten
"""

from nnc.utils.paths import tree_flatten, tree_map, tree_map_with_path, tree_unflatten

__all__ = ["tree_flatten", "tree_map", "tree_map_with_path", "tree_unflatten"]
