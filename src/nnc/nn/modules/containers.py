"""Lists and dictionaries of layers under PyTorch's names: plain containers, which modules look into anyway.

self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])          paths are blocks.0.weight, …
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nnc.arguments import explained, shown
from nnc.errors import ArgumentError
from nnc.nn.state.layer_state import LayerState

__all__ = ["ModuleDict", "ModuleList"]


@explained
class ModuleList(list[LayerState]):
    """A list of layers."""

    def __init__(self, modules: Iterable[LayerState] = ()) -> None:
        super().__init__(modules)
        _check_layers("ModuleList", self)


@explained
class ModuleDict(dict[str, LayerState]):
    """Layers by name."""

    def __init__(self, modules: Mapping[str, LayerState] | Iterable[tuple[str, LayerState]] = ()) -> None:
        super().__init__(modules)
        _check_layers("ModuleDict", self.values())


def _check_layers(subject: str, values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, LayerState):
            raise ArgumentError(subject, got=shown(value), need="layers")
