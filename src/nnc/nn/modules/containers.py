"""Lists and dictionaries of layers under PyTorch's names.

self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])          paths are blocks.0.weight, …

They are plain containers, which modules look into anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from nnc.arguments import explained, shown
from nnc.errors import ArgumentError
from nnc.nn.state.layer_state import LayerState
from nnc.vocabulary.answers import unknown_name

__all__ = ["ModuleDict", "ModuleList"]

# A layer, or a list or dictionary of layers.
Layers: TypeAlias = "LayerState | ModuleList | ModuleDict"


@explained
class ModuleList(list[Any]):
    """A list of layers; some may be lists and dictionaries of layers."""

    def __init__(self, modules: Iterable[Layers] = ()) -> None:
        super().__init__(modules)
        _check_layers("ModuleList", self)


@explained
class ModuleDict(dict[str, Any]):
    """Layers by name, which are its attributes too; some may be lists and dictionaries of layers.

    >>> heads = nn.ModuleDict({"left": nn.Linear(4, 2)})
    >>> heads.left is heads["left"]
    True
    """

    def __init__(self, modules: Mapping[str, Layers] | Iterable[tuple[str, Layers] | list[Any]] = ()) -> None:
        super().__init__(dict(modules))  # type: ignore[arg-type]  # pairs may be lists
        _check_layers("ModuleDict", self.values())

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # a layer
        if name in self:
            return self[name]
        raise unknown_name("ModuleDict", name, {}, lambda: (*self, *dir(dict)), "layers.")

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401  # a layer
        _check_layers("ModuleDict", (value,))
        self[name] = value


def _check_layers(subject: str, values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, LayerState | ModuleList | ModuleDict):
            raise ArgumentError(subject, got=shown(value), need="layers")
