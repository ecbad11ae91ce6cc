"""Modules of other projects, each with where we have what is in them: one row a module.

import nnc.distributed          nnc.distributed: got no such module. Fix: from nnc import parallel
import nnc.linalg               is nnc.numerics.linalg, as `from nnc import linalg` gives it
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from nnc.errors import UnknownModuleError
from nnc.vocabulary.names import MODULE
from nnc.vocabulary.network_names import LAYERS

MODULES: Mapping[str, str] = {
    # PyTorch
    "nnc.cuda": "from nnc import amp, cuda",
    "nnc.distributed": "from nnc import parallel",
    "nnc.nn.parallel": "from nnc import parallel",
    "nnc.multiprocessing": "from nnc import parallel",
    "nnc.profiler": "with nnc.profile() as p: …",
    "nnc.nn.utils.weight_norm": "self.weight = g * v / nnc.linalg.norm(v) in forward, of parameters g and v",
    "nnc.nn.utils.spectral_norm": "w / nnc.linalg.svd(w)[1][0] in forward",
    "nnc.nn.utils.parametrize": "compute the weight in forward, of a parameter",
    "nnc.nn.utils.parametrizations": "compute the weight in forward, of a parameter",
    "nnc.nn.utils.prune": "net.weight.data.mul_(mask)",
    # JAX
    "nnc.numpy": "import nnc as jnp",
    # Keras, MLX
    "nnc.models": "from nnc import nn",
    "nnc.layers": "from nnc import nn",
    "nnc.losses": "from nnc import nn",
    "nnc.metrics": "from nnc.nn import metrics",
    "nnc.callbacks": "from nnc import nn",
    "nnc.datasets": "from nnc.nn import data",
    "nnc.optimizers": "from nnc import optim",
}


# Modules that stand elsewhere here, by the names that NumPy and JAX have for them.
ELSEWHERE: Mapping[str, str] = {
    "nnc.fft": "nnc.numerics.fft",
    "nnc.flatten_util": "nnc.numerics.flatten_util",
    "nnc.lib": "nnc.numerics.numpy_names.lib",
    "nnc.linalg": "nnc.numerics.linalg",
    "nnc.random": "nnc.numerics.random",
    "nnc.scipy": "nnc.numerics.scipy_names",
    "nnc.special": "nnc.numerics.scipy_names.special",
    "nnc.testing": "nnc.numerics.numpy_names.testing",
    "nnc.tree": "nnc.numerics.tree",
    "nnc.tree_util": "nnc.numerics.tree_util",
}


class _Standing(Loader):
    """Gives the module that stands elsewhere, as it is; what a package there has is found below its name here too."""

    def __init__(self, name: str, asked: str) -> None:
        self.name, self.asked = name, asked

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """That module, which keeps its own spec."""
        self.module = import_module(self.name)
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run."""
        module.__spec__ = self.spec
        inside = [(name, part) for name, part in sys.modules.items() if name.startswith(f"{self.name}.")]
        sys.modules.update({self.asked + name.removeprefix(self.name): part for name, part in inside})


def found_elsewhere(module: str) -> ModuleSpec | None:
    """Where a module stands that nobody finds under this name; UnknownModuleError where a row names our form."""
    if module in ELSEWHERE:
        return ModuleSpec(module, _Standing(ELSEWHERE[module], module))
    refuse(module)
    return None


def refuse(module: str) -> None:
    """UnknownModuleError for a module, or for a name that is asked for as one, of which there is a row."""
    package, _, name = module.rpartition(".")
    names = {"nnc": MODULE, "nnc.nn": LAYERS}.get(package, {})
    fix = MODULES.get(module) or names.get(name)
    if fix:
        raise UnknownModuleError(module, got="no such module", fix=fix)
