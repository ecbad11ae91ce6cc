"""How a compiled function is made, and where it runs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from nnc.classes import dataclass
from nnc.concrete import TuneOptions
from nnc.core.values.device import Device
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.graph import default_graph
from nnc.dynamic.transforms.named_sizes import Sizes
from nnc.dynamic.transforms.signatures import is_tensor
from nnc.dynamic.tree import flatten
from nnc.symbolic.compiler import Arena, ArenaLimit


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How programs are made: see `nnc.symbolic.compile`; with a `device` arrays go there before they run."""

    backend: str = ""
    memory_limit: ArenaLimit | None = None
    autotune: TuneOptions | bool = False
    deterministic: bool = False
    sizes: Sizes | None = None
    device: Device | None = None
    arena: Arena | None = None

    @property
    def limit(self) -> ArenaLimit | None:
        """The memory limit within the arena's."""
        return self.memory_limit if self.arena is None else self.arena.within(self.memory_limit)

    @property
    def place(self) -> AbstractContextManager[object]:
        """Where a function makes arrays while it is recorded."""
        return nullcontext() if self.device is None else self.device

    def moved(self, arguments: Any) -> Any:  # noqa: ANN401  # containers of arrays and of all else
        """The arguments with all arrays on the device, where one is named; gradients go the way back."""
        if self.device is None:
            return arguments
        leaves, structure = flatten(arguments)
        return structure.unflatten([_on(leaf, self.device) for leaf in leaves])


PLAIN = CompileOptions()


def _on(leaf: Any, device: Device) -> Any:  # noqa: ANN401  # arrays, specs, and whatever else an argument is
    if isinstance(leaf, TensorSpec):
        return leaf.on(device)
    if isinstance(leaf, ArrayOperand):
        return leaf if leaf.device == device else leaf.to(device)
    return default_graph().constant(leaf, device=device) if is_tensor(leaf) else leaf
