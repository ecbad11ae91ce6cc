"""Lists and dictionaries of layers and parameters under PyTorch's names.

self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])          paths are blocks.0.weight, …
self.scales = nn.ParameterList([nnc.ones(4) for _ in range(3)])           paths are scales.0, …

Those of layers are plain containers, which modules look into anyway; those of parameters are modules that hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeAlias

from numpy.typing import ArrayLike

from nnc.arguments import explained, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor
from nnc.dynamic.tree import Tree
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, IndexRangeError
from nnc.nn.modules.module import Module, Parameter
from nnc.nn.state.frames import value_of
from nnc.nn.state.layer_state import LayerState
from nnc.vocabulary.answers import unknown_name

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList"]

Value = ArrayLike | Tensor | Variable
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


@explained
class ParameterList(Module):
    """A list of parameters; an array becomes one.

    >>> scales = nn.ParameterList([nnc.ones(2), nnc.zeros(3)])
    >>> [path for path, _ in scales.named_parameters()], scales[1].shape
    (['0', '1'], (3,))
    """

    def __init__(self, values: Iterable[Value] = ()) -> None:
        super().__init__()
        self.extend(values)

    def append(self, value: Value) -> Self:
        """One more at the end."""
        setattr(self, str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Value]) -> Self:
        """Several more at the end."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self.own.variables)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[place] for place in range(len(self))])

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401  # a parameter, in the world of the code that asks
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Value) -> None:
        setattr(self, self._name(index), _parameter(value))

    def _name(self, index: int) -> str:
        count = len(self)
        if not isinstance(index, int) or not -count <= index < count:
            got, need = f"[{shown(index)}] of {count} parameters", f"a number {-count}..{count - 1}"
            raise IndexRangeError("ParameterList", got=got, need=need, origin=caller_origin())
        return str(index % count)


@explained
class ParameterDict(Module):
    """Parameters by name; an array becomes one.

    >>> scales = nn.ParameterDict({"left": nnc.ones(2)})
    >>> "left" in scales, scales["left"].requires_grad
    (True, True)
    """

    def __init__(self, parameters: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__()
        self.update(parameters)

    def update(self, parameters: Tree) -> Self:
        """Several more, or others by the same names: a dictionary, or pairs of names and values."""
        for name, value in dict(parameters).items():
            self[name] = value
        return self

    def keys(self) -> list[str]:
        """Their names."""
        return list(self.own.variables)

    def values(self) -> list[Any]:
        """The parameters."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Names and parameters."""
        return [(name, self[name]) for name in self.keys()]

    def __len__(self) -> int:
        return len(self.own.variables)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.own.variables

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a parameter, in the world of the code that asks
        if name not in self.own.variables:
            need = ", ".join(self.keys()) or "one that was set"
            raise ArgumentError("ParameterDict", got=shown(name), need=need, origin=caller_origin())
        return value_of(self, name, self.own.variables[name], statistic=False)

    def __setitem__(self, name: str, value: Value) -> None:
        setattr(self, name, _parameter(value))


def _parameter(value: Value) -> Variable:
    """The parameter itself, or one with a copy of the value."""
    return value if isinstance(value, Variable) and value.graph.is_leaf(value) else Parameter(value)


def _check_layers(subject: str, values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, LayerState | ModuleList | ModuleDict):
            raise ArgumentError(subject, got=shown(value), need="layers")
