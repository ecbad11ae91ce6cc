"""Reverse-mode differentiation: gradient execs are appended to the same graph.

    gradient of x = sum over the readers of x of (their rule applied to the gradients of their outputs)

Only execs between the wanted inputs and the outputs are differentiated. Rules are written in operators, so the
result is a graph like any other and can be differentiated again, to any order. Each tensor's gradient is summed
once, when its writer is reached; zeros are never made unless asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin, inherited_origin
from nnc.core.values.spec import contiguous_strides
from nnc.errors import ArityError, NotDifferentiableError, ShapeError, UsageError
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import fill_like
from nnc.ops.rules import Applied, differentiate
from nnc.symbolic.accumulate import GradientPart, assemble, sum_of_parts
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey
from nnc.symbolic.region import overlaps
from nnc.symbolic.scopes import opened_scopes, reopened


class Gradients(tuple[Symbol, ...]):
    """The gradients of the inputs that were asked for, in their order, and a look at those on the way.

    `execs` are the gradient execs of each exec that was differentiated, in order of appending.
    """

    execs: Mapping[ExecKey, tuple[ExecKey, ...]]
    _work: _Backward

    @classmethod
    def found_by(cls, work: _Backward, inputs: Sequence[Symbol]) -> Gradients:
        """The gradients of `inputs`, with zeros where nothing arrived."""
        totals = ((symbol, work.total(symbol.key)) for symbol in inputs)
        self = cls(fill_like(symbol, 0.0) if total is None else total for symbol, total in totals)
        self.execs = {key: tuple(made) for key, made in work.made.items()}
        self._work = work
        return self

    def of(self, symbol: Symbol) -> Symbol | None:
        """The gradient of any symbol between the inputs and the outputs; None where none arrived.

        Parts of a tensor that were never summed, since nobody asked for all of it, are summed by execs made now.
        """
        return self._work.total(self._work.graph.own(symbol))

    def writer_of(self, symbol: Symbol) -> ExecKey | None:
        """The exec that computes `of(symbol)`, the last of them where there are several."""
        gradient = self.of(symbol)
        writers = () if gradient is None else self._work.graph.writers(gradient.key)
        return writers[-1] if writers else None


@checked
def backward(
    graph: SymbolicGraph,
    outputs: Sequence[Symbol],
    inputs: Sequence[Symbol],
    seeds: Sequence[Symbol | None] | None = None,
    *,
    sources: Sequence[ExecKey] = (),
    destinations: Sequence[ExecKey] = (),
) -> Gradients:
    """Symbols of d(sum of outputs · seeds) / d(input), one per input; a missing seed means ones.

    Differentiated is what lies between the execs `sources` and `destinations`, these included; what is outside is
    constant. Without sources it begins at the inputs, without destinations it ends at the outputs.

    An input that the outputs do not depend on gets zeros. NotDifferentiableError names the operator that stands
    in the way, with the user's line.
    """
    given = tuple(seeds) if seeds is not None else (None,) * len(outputs)
    if len(given) != len(outputs):
        raise ArityError("backward", got=f"{len(given)} seeds", need=f"{len(outputs)}, one per output")
    for symbol in (*outputs, *inputs):
        _check_float(graph, symbol)
    work = _Backward(graph, relevant(graph, outputs, inputs, sources, destinations))
    for output, seed in zip(outputs, given, strict=True):
        if seed is not None and (seed.shape, seed.spec.dtype) != (output.shape, output.spec.dtype):
            raise ShapeError("backward", got=f"seed {seed.spec}", need=str(output.spec), origin=caller_origin())
        work.contribute(output.key, fill_like(output, 1.0) if seed is None else seed)
    work.visit_all()
    return Gradients.found_by(work, inputs)


def _check_float(graph: SymbolicGraph, symbol: Symbol) -> None:
    graph.own(symbol)
    if not symbol.spec.dtype.is_continuous:
        raise NotDifferentiableError(
            "backward", got=str(symbol), need="a floating-point tensor", fix="cast() it", origin=caller_origin()
        )


@dataclass(frozen=True, slots=True)
class Relevant:
    """Execs between inputs and outputs, and roots whose gradient is wanted on the way."""

    execs: frozenset[ExecKey]
    roots: frozenset[TensorKey]


def relevant(
    graph: SymbolicGraph,
    outputs: Sequence[Symbol],
    inputs: Sequence[Symbol],
    sources: Sequence[ExecKey] = (),
    destinations: Sequence[ExecKey] = (),
) -> Relevant:
    """Execs that lead from an input to an output, and the roots that carry its influence.

    With `sources` only execs behind one of them count, with `destinations` only those in front of one.
    """
    wanted = {graph.root(symbol.key) for symbol in inputs}
    reached = graph.execs.reachable(
        [writer for symbol in outputs for writer in graph.writers(symbol.key)], reverse=True
    )
    if len(sources):
        reached = reached & graph.execs.reachable(sources)
    if len(destinations):
        reached = reached & graph.execs.reachable(destinations, reverse=True)
    seen: set[ExecKey] = set()
    for key in graph.execs.toposort(reached):
        record = graph.execs[key]
        if any(tensor is not None and graph.root(tensor) in wanted for tensor in record.inputs):
            seen.add(key)
            wanted.update(
                graph.root(tensor) for tensor in record.outputs if graph.tensors[tensor].spec.dtype.is_continuous
            )
    return Relevant(frozenset(seen), frozenset(wanted))


@dataclass(slots=True)
class _Backward:
    """The gradients found so far: per root, those of its places that are still to be summed."""

    graph: SymbolicGraph
    relevant: Relevant
    parts: dict[TensorKey, list[GradientPart]] = field(default_factory=dict)
    made: dict[ExecKey, list[ExecKey]] = field(default_factory=dict)

    def contribute(self, key: TensorKey, gradient: Symbol) -> None:
        """Add `gradient` (of `key`'s shape) to what is known of the gradient of `key`'s root."""
        part = GradientPart(self.graph.region(key), gradient)
        self.parts.setdefault(self.graph.root(key), []).append(part)

    def total(self, key: TensorKey) -> Symbol | None:
        """The gradient of `key`, or None when nothing has arrived.

        Where all that arrived at the place of `key` is of just that place, nobody makes the gradient of its root.
        """
        graph, root, region = self.graph, self.graph.root(key), self.graph.region(key)
        parts = self.parts.get(root, [])
        here = parts if root == key else [part for part in parts if overlaps(part.region, region)]
        if not here:
            return None
        if all(part.region == region for part in here):
            whole = sum_of_parts(here)
            others = [part for part in parts if part.region != region]
            self.parts[root] = [*others, GradientPart(region, whole)]
            return whole
        whole = assemble(graph, graph.tensors[root].spec, parts)
        if root != key and whole.strides != contiguous_strides(whole.shape):
            whole = contiguous(whole)
        self.parts[root] = [GradientPart(graph.region(root), whole)]
        if root == key:
            return whole
        return whole.alias(graph.tensors[key].spec, whole.offset + region.offset, region.strides)

    def visit_all(self) -> None:
        """Pass gradients on from the last exec to the first, and note which execs that makes."""
        made: list[ExecKey] = []
        with self.graph.observed(made.append):
            for key in reversed(self.graph.execs.toposort(self.relevant.execs)):
                before = len(made)
                self._visit(self.graph.execs[key])
                self.made[key] = made[before:]

    def _visit(self, record: ExecSymbol) -> None:
        """Pass the gradients of an exec's outputs on to its inputs."""
        gradients = tuple(self.total(output) for output in record.outputs)
        if all(gradient is None for gradient in gradients):
            return
        needed = tuple(tensor is not None and self._wanted(tensor) for tensor in record.inputs)
        inputs = tuple(self.graph.symbol(tensor) for tensor in record.inputs if tensor is not None)
        outputs = tuple(self.graph.symbol(tensor) for tensor in record.outputs)
        applied = Applied(record.command.attrs, inputs, outputs, needed)
        try:
            with _place_of(record):
                results = differentiate(record.command.op, applied, gradients)
        except UsageError as error:
            error.origin = error.origin or record.origin
            raise
        for tensor, wanted, result in zip(record.inputs, needed, results, strict=False):
            if wanted and tensor is not None and result is not None:
                assert isinstance(result, Symbol)
                self.contribute(tensor, result)

    def _wanted(self, key: TensorKey) -> bool:
        return self.graph.root(key) in self.relevant.roots and self.graph.tensors[key].spec.dtype.is_continuous


@contextmanager
def _place_of(record: ExecSymbol) -> Iterator[None]:
    """Gradients of an exec that has a name stand in its scopes, and for its line; others for who asks for them."""
    path, _, last = record.name.rpartition(".")
    scopes = f"{path}." if path else "" if record.name else opened_scopes()
    line: AbstractContextManager[None] = inherited_origin(record.origin) if record.name else nullcontext()
    with reopened(scopes, f"gradient of {last or record.command.op.name}"), line:
        yield
