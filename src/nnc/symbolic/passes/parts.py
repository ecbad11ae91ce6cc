"""Parts of a batch: the wide beginning of a network runs for some examples, then for others in the same memory.

    y = g(f(x)) for B examples        becomes        z[part] = f(x[part]) for each part in turn;  y = g(z)

Each example of what f makes needs that example of x alone. Images are large at first and weights small, and later it
is the other way round: f goes as far as it saves more bytes of activations, which then need not be in memory at once,
than bytes of weights are read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace
from typing import Any

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Blocked, TensorSpec
from nnc.errors import UsageError
from nnc.graph import Op
from nnc.ops.composed.fused import FusedAttrs, evaluate, is_fusable, is_reduction
from nnc.ops.convolutions.convolutions import CONVOLUTION
from nnc.ops.convolutions.pooling import AVERAGE_POOL, MAX_POOL
from nnc.ops.convolutions.resize import UPSAMPLE
from nnc.ops.movement.movement import CONCATENATE, TRANSPOSE
from nnc.ops.rules import infer
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.pruning import prune
from nnc.symbolic.records import ExecKey, TensorKey

# A command whose activations take no more bytes than this gains nothing: they stay in a cache.
WIDE = 4 << 20
# Into as many parts, the first of these that divides the batch and pays: more save less and less memory.
COUNTS = (4, 3, 5, 7, 2)
# Each example of the result is of that example of the first operand; other operands are the same for all.
BY_EXAMPLE = frozenset((CONVOLUTION, MAX_POOL, AVERAGE_POOL, UPSAMPLE))
# The same of all operands, where shapes say that examples stay examples.
ALIKE = frozenset((CONCATENATE, TRANSPOSE))


@checked
def part_batch(graph: SymbolicGraph, wanted: Sequence[Symbol], inputs: Iterable[Symbol]) -> Counter[str]:
    """Cut what follows the `inputs` along their first axis, where that pays: how many `parts`, of how many `execs`."""
    data = {graph.own(symbol) for symbol in inputs}
    kept = {graph.root(graph.own(symbol)) for symbol in wanted}
    sizes = {shape[0] for key in data if (shape := graph.tensors[key].spec.shape)}
    for size in sorted(sizes, reverse=True):
        for count in (value for value in COUNTS if size and size % value == 0):
            batch = _Batch(graph, size, count)
            batch.grow(data)
            chosen = batch.worthwhile()
            if chosen:
                batch.cut(chosen, kept)
                prune(graph, wanted)
                return Counter(parts=count, execs=len(chosen))
    return Counter()


class _AcrossError(Exception):
    """What a command reads or makes is not one example behind the other."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A spec, and that of a part where the first axis is the batch."""

    whole: TensorSpec
    part: TensorSpec | None = None

    @property
    def one(self) -> TensorSpec:
        """As a part sees it."""
        return self.whole if self.part is None else self.part


@dataclass(slots=True)
class _Batch:
    """`size` examples in `count` parts. `roots` hold examples one behind the other, `execs` are by example."""

    graph: SymbolicGraph
    size: int
    count: int
    roots: set[TensorKey] = field(default_factory=set)
    execs: list[ExecKey] = field(default_factory=list)

    # ---- what is by example

    def grow(self, data: Collection[TensorKey]) -> None:
        """All that follows `data` example by example."""
        graph = self.graph
        self.roots.update(key for key in data if graph.root(key) == key and self._is_batch(graph.tensors[key].spec))
        for key in graph.execs.toposort():
            if self._is_by_example(key):
                self.execs.append(key)
                self.roots.update(graph.execs[key].outputs)

    def _is_by_example(self, key: ExecKey) -> bool:
        graph, record = self.graph, self.graph.execs[key]
        if (
            not record.optimize
            or graph.given_order(key)
            or any(graph.root(output) != output for output in record.outputs)
        ):
            return False
        try:
            read = [None if operand is None else self._value(operand) for operand in record.inputs]
            # Where nothing has examples, a command may be of any kind.
            made = self._result(record.command, read) if any(value and value.part for value in read) else None
        except (_AcrossError, UsageError):
            return False
        return made is not None and made.part is not None

    def _value(self, key: TensorKey) -> _Value:
        """A tensor as a command reads it."""
        graph, spec, root = self.graph, self.graph.tensors[key].spec, self.graph.root(key)
        if root not in self.roots:
            return _Value(spec)
        if not self._is_batch(spec):
            raise _AcrossError
        region, step = graph.region(key), graph.tensors[root].spec.elements // self.size
        begin, end = replace(region, shape=(1, *region.shape[1:])).bounds()
        if not (region.strides[0] == step and begin >= 0 and end <= step):
            raise _AcrossError
        return _Value(spec, self._part(spec))

    def _result(self, command: AnyCommand, read: Sequence[_Value | None]) -> _Value:
        """The one result of a command."""
        op, attrs = command.op, command.attrs
        if isinstance(attrs, FusedAttrs):
            return evaluate(attrs, [value for value in read if value is not None], self._result)[-1]
        whole, *others = infer(op, attrs, tuple(None if value is None else value.whole for value in read))
        parted = [place for place, value in enumerate(read) if value is not None and value.part is not None]
        if not parted:
            return _Value(whole)
        (part, *_) = infer(op, attrs, tuple(None if value is None else value.one for value in read))
        apart = parted == [0] if op in BY_EXAMPLE else self._is_alike(op, read, parted, whole)
        if others or not apart or not self._is_batch(whole) or part != self._part(whole):
            raise _AcrossError
        return _Value(whole, part)

    def _is_alike(self, op: Op[Any], read: Sequence[_Value | None], parted: list[int], whole: TensorSpec) -> bool:
        if op in ALIKE or is_reduction(op):
            return len(parted) == len(read)
        # An operand of fewer axes is spread along the first one.
        return is_fusable(op) and all(
            value.whole.rank == whole.rank for value in read if value is not None and value.part
        )

    def _is_batch(self, spec: TensorSpec) -> bool:
        return spec.rank > 0 and spec.shape[0] == self.size and not isinstance(spec.layout, Blocked)

    def _part(self, spec: TensorSpec) -> TensorSpec:
        return replace(spec, shape=(self.size // self.count, *spec.shape[1:]))

    # ---- what pays

    def worthwhile(self) -> list[ExecKey]:
        """As many of the first execs as save most bytes; none where it is a loss."""
        best, total, length = 0, 0, 0
        for place, key in enumerate(self.execs):
            record, specs = self.graph.execs[key], self.graph.tensors
            keys = [value for value in (*record.inputs, *record.outputs) if value is not None]
            moved = sum(specs[value].spec.nbytes for value in keys if self.graph.root(value) in self.roots)
            fixed = sum(specs[value].spec.nbytes for value in keys if self.graph.root(value) not in self.roots)
            total += (moved if moved > WIDE else 0) - (self.count - 1) * fixed
            if total > best:
                best, length = total, place + 1
        return self.execs[:length]

    # ---- cutting

    def cut(self, chosen: Sequence[ExecKey], kept: Collection[TensorKey]) -> None:
        """Run these execs for each part in turn; what others read of them is in one piece as before.

        Those whose results nobody else reads stay as well, for nobody.
        """
        graph, within = self.graph, frozenset(chosen)
        records = [graph.execs[key] for key in chosen]
        inside = {
            key
            for record in records
            for key in record.outputs
            if key not in kept and within.issuperset(graph.readers(key))
        }
        for key, record in zip(chosen, records, strict=True):
            if inside.isdisjoint(record.outputs):
                graph.remove_exec(key)
        for index in range(self.count):
            pieces: dict[TensorKey, TensorKey] = {}
            for record in records:
                inputs = tuple(
                    [
                        None if operand is None else self._piece(operand, index, inside, pieces)
                        for operand in record.inputs
                    ]
                )
                outputs = tuple([self._piece(output, index, inside, pieces) for output in record.outputs])
                graph.add_exec(replace(record, inputs=inputs, outputs=outputs))

    def _piece(
        self, key: TensorKey, index: int, inside: Collection[TensorKey], pieces: dict[TensorKey, TensorKey]
    ) -> TensorKey:
        """The part of a tensor: of a smaller one where nobody outside reads it, else of the same."""
        graph, root = self.graph, self.graph.root(key)
        if root not in self.roots:
            return key
        if key not in pieces:
            record, region = graph.tensors[key], graph.region(key)
            spec, offset = self._part(record.spec), region.offset
            if root == key and root in inside:
                pieces[key] = graph.add_tensor(replace(record, spec=spec))
            else:
                base = self._piece(root, index, inside, pieces) if root in inside else root
                offset += 0 if root in inside else index * spec.shape[0] * region.strides[0]
                pieces[key] = graph.alias(base, spec, offset, region.strides).key
        return pieces[key]
