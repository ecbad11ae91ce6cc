"""Modules of other projects, each with where we have what is in them: one row a module.

import nnc.utils.data           nnc.utils: got no such module. Fix: from nnc.nn.data import DataLoader, TensorDataset
from nnc import lax             nnc.lax: got no such module. Fix: from nnc import cond, scan, while_loop
"""

from __future__ import annotations

from collections.abc import Mapping

from nnc.errors import UnknownModuleError
from nnc.vocabulary.names import MODULE
from nnc.vocabulary.network_names import LAYERS

MODULES: Mapping[str, str] = {
    # PyTorch
    "nnc.utils": "from nnc.nn.data import DataLoader, TensorDataset, random_split; nnc.tree.map",
    "nnc.func": "from nnc import grad, jvp, vjp, vmap",
    "nnc.autograd": "from nnc import grad, value_and_grad",
    "nnc.amp": "nnc.nn.Model(…, precision=nnc.bf16)",
    "nnc.distributed": "from nnc import parallel",
    # JAX
    "nnc.lax": "from nnc import cond, scan, while_loop",
    "nnc.numpy": "import nnc as jnp",
    "nnc.scipy": "nnc.logsumexp, nnc.erf, nnc.softmax",
    "nnc.tree_util": "from nnc import tree",
    "nnc.tree": "from nnc import tree",
    "nnc.random": "from nnc import random",
    "nnc.linalg": "from nnc import linalg",
    "nnc.fft": "from nnc import fft",
    # Keras, MLX
    "nnc.keras": "from nnc import nn",
    "nnc.models": "from nnc import nn",
    "nnc.layers": "from nnc import nn",
    "nnc.losses": "from nnc import nn",
    "nnc.metrics": "from nnc.nn import metrics",
    "nnc.callbacks": "from nnc import nn",
    "nnc.datasets": "from nnc.nn import data",
    "nnc.optimizers": "from nnc import optim",
    "nnc.nn.losses": "from nnc.nn import functional",
}


def refuse(module: str) -> None:
    """UnknownModuleError for a module, or for a name that is asked for as one, of which there is a row."""
    package, _, name = module.rpartition(".")
    names = {"nnc": MODULE, "nnc.nn": LAYERS}.get(package, {})
    fix = MODULES.get(module) or names.get(name)
    if fix:
        raise UnknownModuleError(module, got="no such module", fix=fix)
