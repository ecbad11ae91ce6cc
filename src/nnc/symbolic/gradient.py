"""Reverse-mode differentiation: gradient execs are appended to the same graph.

    gradient of x = sum over the readers of x of (their rule applied to the gradients of their outputs)

Only execs between the wanted inputs and the outputs are differentiated. Rules are written in operators, so the
result is a graph like any other and can be differentiated again, to any order. Each tensor's gradient is summed
once, when its writer is reached; zeros are never made unless asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nnc.core.origin import caller_origin
from nnc.core.spec import contiguous_strides
from nnc.errors import ArityError, NotDifferentiableError, ShapeError, UsageError
from nnc.ops.broadcast import reshape
from nnc.ops.copy import contiguous
from nnc.ops.fill import fill_like
from nnc.ops.movement import EmbedAttrs, embed
from nnc.ops.pointwise import add
from nnc.ops.rules import Applied, differentiate
from nnc.symbolic.ir import ExecKey, ExecSymbol, Symbol, SymbolicGraph, TensorKey


def backward(
    graph: SymbolicGraph,
    outputs: Sequence[Symbol],
    inputs: Sequence[Symbol],
    seeds: Sequence[Symbol | None] | None = None,
) -> tuple[Symbol, ...]:
    """Symbols of d(sum of outputs · seeds) / d(input), one per input; a missing seed means ones.

    An input that the outputs do not depend on gets zeros. NotDifferentiableError names the operator that stands
    in the way, with the user's line.
    """
    given = tuple(seeds) if seeds is not None else (None,) * len(outputs)
    if len(given) != len(outputs):
        raise ArityError("backward", got=f"{len(given)} seeds", need=f"{len(outputs)}, one per output")
    for symbol in (*outputs, *inputs):
        _check_float(graph, symbol)
    work = _Backward(graph, relevant(graph, outputs, inputs))
    for output, seed in zip(outputs, given, strict=True):
        if seed is not None and (seed.shape, seed.spec.dtype) != (output.shape, output.spec.dtype):
            raise ShapeError("backward", got=f"seed {seed.spec}", need=str(output.spec), origin=caller_origin())
        work.contribute(output.key, fill_like(output, 1.0) if seed is None else seed)
    for key in reversed(graph.execs.toposort(work.relevant.execs)):
        work.visit(graph.execs[key])
    return tuple(work.total(symbol.key) or fill_like(symbol, 0.0) for symbol in inputs)


def _check_float(graph: SymbolicGraph, symbol: Symbol) -> None:
    graph.own(symbol)
    if not symbol.spec.dtype.is_float:
        raise NotDifferentiableError(
            "backward", got=str(symbol), need="a floating-point tensor", fix="cast() it", origin=caller_origin()
        )


@dataclass(frozen=True, slots=True)
class Relevant:
    """Execs between inputs and outputs, and roots whose gradient is wanted on the way."""

    execs: frozenset[ExecKey]
    roots: frozenset[TensorKey]


def relevant(graph: SymbolicGraph, outputs: Sequence[Symbol], inputs: Sequence[Symbol]) -> Relevant:
    """Execs that lead from an input to an output, and the roots that carry its influence."""
    wanted = {graph.root(symbol.key) for symbol in inputs}
    reached = graph.execs.reachable(
        [writer for symbol in outputs for writer in graph.writers(symbol.key)], reverse=True
    )
    seen: set[ExecKey] = set()
    for key in graph.execs.toposort(reached):
        record = graph.execs[key]
        if any(tensor is not None and graph.root(tensor) in wanted for tensor in record.inputs):
            seen.add(key)
            wanted.update(graph.root(tensor) for tensor in record.outputs if graph.tensors[tensor].spec.dtype.is_float)
    return Relevant(frozenset(seen), frozenset(wanted))


@dataclass(slots=True)
class _Backward:
    """The gradients found so far: per root, symbols of the root's shape that are still to be summed."""

    graph: SymbolicGraph
    relevant: Relevant
    parts: dict[TensorKey, list[Symbol]] = field(default_factory=dict)

    def contribute(self, key: TensorKey, gradient: Symbol) -> None:
        """Add `gradient` (of `key`'s shape) to the gradient of `key`'s root."""
        root = self.graph.root(key)
        self.parts.setdefault(root, []).append(self._spread_to_root(key, gradient))

    def total(self, key: TensorKey) -> Symbol | None:
        """The gradient of `key`, or None when nothing has arrived."""
        root = self.graph.root(key)
        parts = self.parts.get(root)
        if not parts:
            return None
        whole = parts[0]
        for part in parts[1:]:
            whole = add(whole, part)
        if root != key and whole.strides != contiguous_strides(whole.shape):
            whole = contiguous(whole)
        self.parts[root] = [whole]
        if root == key:
            return whole
        region = self.graph.region(key)
        return whole.alias(self.graph.tensors[key].spec, whole.offset + region.offset, region.strides)

    def visit(self, record: ExecSymbol) -> None:
        """Pass the gradients of an exec's outputs on to its inputs."""
        gradients = tuple(self.total(key) for key in record.outputs)
        if all(gradient is None for gradient in gradients):
            return
        needed = tuple(key is not None and self._wanted(key) for key in record.inputs)
        inputs = tuple(self.graph.symbol(key) for key in record.inputs if key is not None)
        outputs = tuple(self.graph.symbol(key) for key in record.outputs)
        applied = Applied(record.command.attrs, inputs, outputs, needed)
        try:
            results = differentiate(record.command.op, applied, gradients)
        except UsageError as error:
            error.origin = error.origin or record.origin
            raise
        for key, wanted, result in zip(record.inputs, needed, results, strict=False):
            if wanted and key is not None and result is not None:
                assert isinstance(result, Symbol)
                self.contribute(key, result)

    def _wanted(self, key: TensorKey) -> bool:
        return self.graph.root(key) in self.relevant.roots and self.graph.tensors[key].spec.dtype.is_float

    def _spread_to_root(self, key: TensorKey, gradient: Symbol) -> Symbol:
        """A gradient of an alias as one of its root: a reshape where it covers the root, else laid into zeros."""
        root = self.graph.root(key)
        if root == key:
            return gradient
        spec, region = self.graph.tensors[root].spec, self.graph.region(key)
        if gradient.spec.elements == spec.elements and region.strides == contiguous_strides(region.shape):
            return reshape(gradient, spec.shape)
        if not region.is_injective():
            raise NotDifferentiableError(
                "alias",
                got=f"a gradient through {self.graph.label(key)}, which names an element twice",
                need="a view that names each element once",
                origin=self.graph.tensors[key].origin,
            )
        return embed(gradient, EmbedAttrs(spec.shape, region.offset, region.strides))
