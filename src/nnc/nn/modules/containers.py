"""Lists and dictionaries of layers under PyTorch's names.

self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])          paths are blocks.0.weight, …

They are plain containers, which modules look into anyway, with a module's words for what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeAlias

from numpy.typing import ArrayLike

from nnc.arguments import explained, shown
from nnc.core.values.device import AnyDevice
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError
from nnc.nn.modules.module import Module
from nnc.nn.state.layer_state import LayerState, Parameters
from nnc.nn.state.loading import UnfitKeys
from nnc.vocabulary.answers import unknown_name

__all__ = ["ModuleDict", "ModuleList"]

# A layer, or a list or dictionary of layers.
Layers: TypeAlias = "LayerState | ModuleList | ModuleDict"


class LayersInside:
    """What a container of layers is asked for as a module would be."""

    __slots__ = ()

    def _named_layers(self) -> Iterable[tuple[str, Layers]]:
        """Layers by name."""
        raise NotImplementedError

    def _whole(self) -> Module:
        """A module that has them as attributes."""
        made = Module()
        for name, layer in self._named_layers():
            setattr(made, name, layer)
        return made

    def parameters(self) -> Parameters:
        """All parameters, for an optimizer.

        >>> len(list(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)]).parameters()))
        4
        """
        return self._whole().parameters()

    def named_parameters(self) -> list[tuple[str, Variable]]:
        """Parameters by path: `0.weight`."""
        return self._whole().named_parameters()

    def buffers(self) -> list[Variable]:
        """Statistics of all layers."""
        return self._whole().buffers()

    def named_buffers(self) -> list[tuple[str, Variable]]:
        """Statistics by path."""
        return self._whole().named_buffers()

    def named_children(self) -> list[tuple[str, LayerState]]:
        """Layers by name."""
        return self._whole().named_children()

    def children(self) -> list[LayerState]:
        """The layers."""
        return self._whole().children()

    def modules(self) -> list[LayerState]:
        """The layers and those below them."""
        return self._whole().modules()[1:]

    def state_dict(self) -> dict[str, Variable]:
        """Parameters and statistics by path."""
        return self._whole().state_dict()

    def load_state_dict(self, values: Mapping[str, ArrayLike], *, strict: bool = True) -> UnfitKeys:
        """Set them by path; what does not fit is an error, or is given back unless `strict`."""
        return self._whole().load_state_dict(values, strict=strict)

    def apply(self, function: Callable[..., Any]) -> Self:
        """Call the function on each layer below and each of these."""
        for _, layer in self._named_layers():
            layer.apply(function)
        return self

    def train(self, mode: bool = True) -> Self:
        """Calls are those of training."""
        self._whole().train(mode)
        return self

    def eval(self) -> Self:
        """Calls are those of use."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters are trained."""
        self._whole().requires_grad_(requires_grad)
        return self

    def to(self, device: AnyDevice) -> Self:
        """Move all tensors to a device."""
        self._whole().to(device)
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        self._whole().zero_grad()


@explained
class ModuleList(LayersInside, list[Any]):
    """A list of layers; some may be lists and dictionaries of layers."""

    def __init__(self, modules: Iterable[Layers] = ()) -> None:
        super().__init__(modules)
        _check_layers("ModuleList", self)

    def _named_layers(self) -> Iterable[tuple[str, Layers]]:
        return ((str(place), layer) for place, layer in enumerate(self))


@explained
class ModuleDict(LayersInside, dict[str, Any]):
    """Layers by name, which are its attributes too; some may be lists and dictionaries of layers.

    >>> heads = nn.ModuleDict({"left": nn.Linear(4, 2)})
    >>> heads.left is heads["left"]
    True
    """

    def __init__(self, modules: Mapping[str, Layers] | Iterable[tuple[str, Layers] | list[Any]] = ()) -> None:
        super().__init__(dict(modules))  # type: ignore[arg-type]  # pairs may be lists
        _check_layers("ModuleDict", self.values())

    def _named_layers(self) -> Iterable[tuple[str, Layers]]:
        return self.items()

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
