"""Functional composition: layers applied to values by name, with any number of inputs and outputs.

a, b = nn.Input((4,)), nn.Input((3,))
hidden = nn.Dense(8)(a)
shared = nn.Dense(4)                     # applied twice: the same weights
net = nn.Functional([a, b], [shared(hidden), shared(nn.Dense(8)(b), name="…")])
model = nn.Model(net, loss=[…, …])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArityError, UsageError
from nnc.nn.layers.layer import Input, Layer, LayerValue, MultiLayer, Scope, T
from nnc.nn.state.layer_state import LayerState

__all__ = ["Functional", "Lambda"]

# Where a value comes from: a step and which of its outputs; inputs stand in step -1.
Source = tuple[int, int]
INPUTS = -1


@dataclass(frozen=True, slots=True)
class LayerCall:
    """A layer applied to values; calls of one layer have one name, and so the same parameters."""

    name: str
    layer: Layer
    sources: tuple[Source, ...]


@checked
class Functional(MultiLayer):
    """The layers between `inputs` and `outputs`, one or several of each.

    Their names are those of their calls, or numbers in order of use.

    >>> a, b = nn.Input((3,)), nn.Input((5,))
    >>> sides = nn.Lambda(lambda p, q: p + q)(nn.Dense(4)(a), nn.Dense(4)(b))
    >>> nn.Functional([a, b], sides)(nnc.ones((2, 3)), nnc.ones((2, 5))).shape
    (2, 4)
    """

    __slots__ = ("calls", "inputs", "sources")
    stands_by_class = False

    def __init__(self, inputs: Input | Sequence[Input], outputs: LayerValue | Sequence[LayerValue]) -> None:
        outputs = (outputs,) if isinstance(outputs, LayerValue) else outputs
        self.inputs = (inputs,) if isinstance(inputs, Input) else tuple(inputs)
        order = _in_order(self.inputs, outputs)
        names = _names(order)
        places = {id(value): (INPUTS, place) for place, value in enumerate(self.inputs)}
        calls = []
        for step, value in enumerate(order):
            sources = tuple(_source(places, source) for source in value.sources)
            calls.append(LayerCall(names[id(value.layer)], value.layer, sources))
            places[id(value)] = (step, 0)
        self.calls = tuple(calls)
        self.sources = tuple(_source(places, value) for value in outputs)

    def named_children(self) -> list[tuple[str, LayerState]]:
        """The layers with the names of their calls."""
        return [(call.name, call.layer) for call in self.calls]

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply all layers in order."""
        if len(inputs) != len(self.inputs):
            raise ArityError("Functional", got=f"{len(inputs)} inputs", need=f"{len(self.inputs)} inputs")
        values: dict[int, tuple[T, ...]] = {INPUTS: inputs}
        for step, call in enumerate(self.calls):
            values[step] = call.layer.build_many(
                scope.inside(call.name), tuple(_picked(values, source) for source in call.sources)
            )
        return tuple(_picked(values, source) for source in self.sources)

    def __repr__(self) -> str:
        return "Functional(" + ", ".join(f"{call.name}={call.layer!r}" for call in self.calls) + ")"


@checked
@dataclass(frozen=True, slots=True)
class Lambda(MultiLayer):
    """Any function of operands as a layer without parameters: `Lambda(ops.add)(a, b)`, or `Lambda(lambda x: x * x)`.

    >>> nn.Lambda(lambda x: x * 2)([[1.0, 2.0]])
    Variable(f32[1, 2], constant)
    [[2. 4.]]
    """

    function: Callable[..., Any]

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """The function's results."""
        outputs = self.function(*inputs)
        return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


def _in_order(inputs: tuple[Input, ...], outputs: Sequence[LayerValue]) -> list[LayerValue]:
    """The calls that outputs need, each after those it reads."""
    given = {id(operand) for operand in inputs}
    done: set[int] = set()
    order: list[LayerValue] = []
    waiting: list[LayerValue | Input] = [_whole(value) for value in reversed(outputs)]
    while waiting:
        value = waiting[-1]
        if isinstance(value, Input):
            if id(value) not in given:
                raise UsageError("Functional", got=f"{value} beside inputs", need="each Input that outputs read")
            waiting.pop()
            continue
        unread = [_whole(source) for source in value.sources if id(_whole(source)) not in done | given]
        if id(value) in done or not unread:
            waiting.pop()
            if id(value) not in done:
                done.add(id(value))
                order.append(value)
        else:
            waiting.extend(reversed(unread))
    return order


def _whole(value: LayerValue | Input) -> LayerValue | Input:
    """The call that a single output belongs to."""
    return value.of if isinstance(value, LayerValue) and value.of is not None else value


def _names(order: Sequence[LayerValue]) -> dict[int, str]:
    """One name per layer."""
    names: dict[int, str] = {}
    for value in order:
        known = names.get(id(value.layer))
        if known is None:
            name = value.name or str(len(names))
            if name in names.values():
                raise UsageError("Functional", got=f"two layers of name {name!r}", need="a name of its own for each")
            names[id(value.layer)] = name
        elif value.name not in ("", known):
            got = f"a layer of the names {known!r} and {value.name!r}"
            raise UsageError("Functional", got=got, need="one name", origin=caller_origin())
    return names


def _source(places: dict[int, Source], value: LayerValue | Input) -> Source:
    step, _ = places[id(_whole(value))]
    return (step, value.index) if isinstance(value, LayerValue) else places[id(value)]


def _picked(values: dict[int, tuple[T, ...]], source: Source) -> T:
    step, index = source
    if index >= len(values[step]):
        got, need = f"output {index}", f"one of the {len(values[step])} outputs"
        raise ArityError("Functional", got=got, need=need)
    return values[step][index]
