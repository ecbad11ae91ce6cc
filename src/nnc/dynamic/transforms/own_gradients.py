"""Functions with gradients of their own where commands build graphs: in compiled and mapped functions.

    y = f(x), dL/dx = slopes(x, dL/dy)          own_gradient(y₁ …, x₁ …) = y₁ …

The operator hands its first operands on. Its gradient is what `slopes` makes of the others and of the gradients of its
outputs, written by the user in operators; none flows to what `f` did. Where `f` gives one value passes take the
operator away again, behind differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import CPU
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.traced import FunctionTrace, active_trace
from nnc.dynamic.transforms.batched import outside_levels, vmap
from nnc.errors import UsageError
from nnc.ops.batching import BatchedCall
from nnc.ops.composed.own_gradient import OWN_GRADIENT, OwnGradientAttrs
from nnc.ops.movement.fill import FILL, FillAttrs, fill_like
from nnc.ops.operand import Operand
from nnc.ops.rules import Applied, Gradients
from nnc.symbolic.ir import Symbol, SymbolicGraph

# Gradients of the arguments, of these and of the gradients of the results.
Slopes: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def _gradient(slopes: Slopes, call: Applied[OwnGradientAttrs], gradients: Gradients) -> Gradients:
    count = call.attrs.results
    seeds = [fill_like(y, 0.0) if g is None else g for y, g in zip(call.outputs, gradients, strict=True)]
    values = call.inputs[count:]
    made = _of_symbols if isinstance(values[0], Symbol) else _of_values
    return (*(None,) * count, *made(slopes, values, seeds))


def _of_values(slopes: Slopes, values: Sequence[Operand], seeds: Sequence[Operand]) -> Sequence[Operand | None]:
    return slopes(values, seeds)


def _of_symbols(slopes: Slopes, values: Sequence[Operand], seeds: Sequence[Operand]) -> Sequence[Operand | None]:
    """The slopes as part of the graph: in the function that is being recorded, or behind it, or in a loop's body."""
    graph = values[0].graph  # type: ignore[attr-defined]  # symbols
    trace = active_trace()
    if trace is not None and trace.current is graph:
        return _traced(trace, slopes, values, seeds)
    apart = _GradientTrace(graph)
    with apart.active():
        return _traced(apart, slopes, values, seeds)


class _GradientTrace(FunctionTrace):
    """A gradient that is written behind the function that it belongs to, into its graph, which has all its inputs."""

    def __init__(self, graph: SymbolicGraph) -> None:
        super().__init__("gradient")
        self.graph = self.current = graph

    def constant(self, tensor: Tensor) -> Symbol:
        """Of one number; UsageError for an array of several."""
        values = tensor.to(CPU).numpy()
        if not values.size or (values != values.flat[0]).any():
            got, fix = (
                f"{tensor.spec} that it brings along",
                "save it in the forward function, or compile the gradient too",
            )
            raise UsageError("gradient", got=got, need="what the forward function has", fix=fix, origin=caller_origin())
        return self.graph.apply(Command(FILL, FillAttrs(float(values.flat[0]), tensor.spec)), ())[0]


def _traced(
    trace: FunctionTrace, slopes: Slopes, values: Sequence[Operand], seeds: Sequence[Operand]
) -> Sequence[Operand | None]:
    given = [[trace.value(symbol) for symbol in symbols] for symbols in (values, seeds)]  # type: ignore[arg-type]  # symbols
    # Symbols have all examples of a batch, whoever asks for the gradient.
    with outside_levels():
        return [None if slope is None else trace.symbol(slope) for slope in slopes(*given)]


def _batched(slopes: Slopes, call: BatchedCall[OwnGradientAttrs]) -> tuple[Operand, ...]:
    """One for all examples, whose slopes are mapped."""
    inputs = [call.spread(place) for place in range(len(call.specs))]

    def mapped(values: Sequence[Any], seeds: Sequence[Any]) -> Sequence[Any]:
        made: Sequence[Any] = vmap(lambda xs, gs: _whole(slopes, xs, gs))(list(values), list(seeds))
        return made

    return inputs[0].apply(_command(call.attrs.results, mapped), inputs)


def _command(results: int, slopes: Slopes) -> AnyCommand:
    return Command(OWN_GRADIENT, OwnGradientAttrs(results, partial(_gradient, slopes), partial(_batched, slopes)))


def _whole(slopes: Slopes, values: Sequence[Any], seeds: Sequence[Any]) -> Sequence[Any]:
    pairs = zip(slopes(values, seeds), values, strict=True)
    return [fill_like(value, 0.0) if slope is None else slope for slope, value in pairs]


def with_own_gradient(results: Sequence[ArrayOperand], values: Sequence[ArrayOperand], slopes: Slopes) -> Sequence[Any]:
    """The results, whose gradients by the values, all of real numbers, are those that `slopes` makes."""
    inputs = [*results, *values]
    # The operand that knows most of them leads: one of the innermost function that is mapped.
    first = max(inputs, key=lambda operand: getattr(getattr(operand, "level", None), "depth", -1))
    return first.apply(_command(len(results), slopes), inputs)
