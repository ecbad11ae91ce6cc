"""Layout: conversions between orders of axes move out of the way, and cancel where they meet.

Convolutions, pools and batch norms are defined, and served, with channels last. A network that was written with
channels first has a conversion (`transpose`, `convert_layout`) before and behind each of them. What lies between two
conversions, and knows its axes by name (`nnc.ops.permutation`), may as well work in the other order:

    y = transpose(x, q);  z = f(y)        becomes        z = transpose(f′(x), q)

A region is all execs with a rule that are connected by tensors from one conversion on. It is turned around as a whole
when that moves fewer elements: conversions at its border that cancel, against conversions that become necessary at
other operands, at results that are wanted, and at readers without a rule. An operand is converted once for all its
readers; one whose axes of size 1 alone move is an alias.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from itertools import accumulate, pairwise
from typing import cast

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import inherited_origin
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import AnyLayout, Layout, Shape, TensorSpec
from nnc.ops.convolutions.convolutions import CONVOLUTION
from nnc.ops.convolutions.pooling import AVERAGE_POOL, MAX_POOL
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.movement.layout import CONVERT_LAYOUT, conversion, layout_permutation, permutation_of
from nnc.ops.movement.movement import TRANSPOSE, transpose
from nnc.ops.permutation import (
    PERMUTED,
    Permutation,
    Permuted,
    compose,
    elements,
    identity,
    inverse,
    is_free,
)
from nnc.ops.rules import infer
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.pruning import Pruning
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, is_dense, producer, rewrite

CONVERSIONS = (TRANSPOSE, CONVERT_LAYOUT)
WINDOWED = (CONVOLUTION, AVERAGE_POOL, MAX_POOL)


@checked
def has_channels_first(graph: SymbolicGraph) -> bool:
    """Whether channels go from the second axis to the last in front of a convolution or a pool."""
    return any(
        record.command.op is TRANSPOSE
        and record.command.attrs.permutation == layout_permutation(Layout.NHWC, len(record.command.attrs.permutation))
        and any(graph.execs[reader].command.op in WINDOWED for reader in graph.readers(record.outputs[0]))
        for _, record in graph.execs.items()
    )


@checked
def assign_layouts(graph: SymbolicGraph, wanted: Sequence[Symbol]) -> Counter[str]:
    """Turn around the regions where that moves fewer elements: how many there were, and their execs.

    Outputs keep their symbols, their order of axes and their values.
    """
    fired = +rewrite(graph, MEETINGS, wanted)
    kept = {graph.root(graph.own(symbol)) for symbol in wanted}
    pruning = Pruning(graph, kept)
    pruning.look_at(graph.execs)
    for key in graph.execs.toposort():
        if key not in graph.execs or graph.execs[key].command.op not in CONVERSIONS:
            continue
        region = _Region.grow(graph, key, kept)
        if region.plans and region.moved() < 0:
            fired += Counter(regions=1, turned=len(region.plans))
            touched = region.border()
            with graph.observed(touched.append):
                region.turn()
                touched += [reader for tensor in region.orders for reader in graph.readers(tensor)]
                fired += rewrite(graph, MEETINGS, wanted, touched)
            pruning.look_at(touched)
    pruning.forget()
    return fired


@dataclass(slots=True)
class _Region:
    """`orders`: the permutation of each tensor of the region; `plans`: each exec's rule for it.

    `tagged`: the region begins at `convert_layout`, so that tensors change their layout with their order.
    """

    graph: SymbolicGraph
    kept: Collection[TensorKey]
    tagged: bool
    orders: dict[TensorKey, Permutation] = field(default_factory=dict)
    plans: dict[ExecKey, Permuted] = field(default_factory=dict)
    made: dict[tuple[TensorKey, Permutation], Symbol] = field(default_factory=dict)

    @classmethod
    def grow(cls, graph: SymbolicGraph, start: ExecKey, kept: Collection[TensorKey]) -> _Region:
        """The region behind a conversion, which would read what the conversion reads."""
        record = graph.execs[start]
        region = cls(graph, kept, record.command.op is CONVERT_LAYOUT)
        (y,), (x,) = record.outputs, record.inputs
        assert x is not None
        permutation = permutation_of(record.command, graph.tensors[x].spec)
        if permutation is None or not record.optimize or graph.root(y) != y:
            return region
        region.orders[y] = inverse(permutation)
        waiting = [y]
        while waiting:
            tensor = waiting.pop()
            for key in (*graph.writers(tensor), *graph.readers(tensor)):
                waiting.extend(region._join(key, tensor))
        return region

    # ---- growing

    def _join(self, key: ExecKey, tensor: TensorKey) -> list[TensorKey]:
        """Take an exec in, if its rule agrees with the orders of its tensors; the tensors that are new."""
        record = self.graph.execs[key]
        # Readers of an alias are readers of the tensor too, though it may have another rank.
        if key in self.plans or tensor not in (*record.inputs, *record.outputs):
            return []
        plan = self._plan(record, self.orders[tensor])
        if plan is None:
            return []
        orders = dict(self._spanned(record, plan))
        fits = all(self.orders.get(other, order) == order for other, order in orders.items())
        if not fits or not all(map(self._is_known, orders, orders.values())):
            return []
        self.plans[key] = plan
        fresh = [other for other in orders if other not in self.orders]
        self.orders.update(orders)
        return fresh

    def _plan(self, record: ExecSymbol, order: Permutation) -> Permuted | None:
        graph, rule = self.graph, PERMUTED.get(record.command.op)
        if rule is None or not record.optimize or any(graph.root(key) != key for key in record.outputs):
            return None
        plan = rule(record.command.attrs, graph.specs(record.inputs), order)
        return plan if plan is not None and (not self.tagged or self._keeps_tags(record, plan)) else None

    def _keeps_tags(self, record: ExecSymbol, plan: Permuted) -> bool:
        """True when a change of layout makes each result, and each operand that is not as it is in memory."""
        specs = self.graph.tensors
        outputs = zip(record.outputs, plan.outputs, strict=True)
        inputs = ((key, order) for key, order in zip(record.inputs, plan.inputs, strict=True) if key and order)
        others = ((key, order) for key, order in inputs if not is_free(specs[key].spec, order))
        return all(conversion(specs[k].spec, order, self._target(specs[k].spec)) for k, order in (*outputs, *others))

    def _spanned(self, record: ExecSymbol, plan: Permuted) -> Iterator[tuple[TensorKey, Permutation]]:
        """The tensors through which the region goes on: whole ones whose memory the order changes."""
        outputs = zip(record.outputs, plan.outputs, strict=True)
        inputs = zip(record.inputs, plan.inputs, strict=True)
        yield from ((key, order) for key, order in outputs if order != identity(len(order)))
        for key, order in inputs:
            if key is not None and order is not None and self.graph.root(key) == key and not self._is_given(key, order):
                yield key, order

    def _is_given(self, key: TensorKey, order: Permutation) -> bool:
        """True when the permuted operand costs nothing: a constant, or one whose axes of size 1 alone move."""
        spec = self.graph.tensors[key].spec
        return spec.rank != len(order) or is_free(spec, order) or self._fill(key) is not None

    def _fill(self, key: TensorKey) -> ExecSymbol | None:
        records = [self.graph.execs[writer] for writer in self.graph.writers(key)]
        return records[0] if len(records) == 1 and records[0].command.op is FILL and key in records[0].outputs else None

    def _is_known(self, key: TensorKey, order: Permutation) -> bool:
        """One exec writes the tensor, or none; and there is a conversion to the order and back."""
        spec = self.graph.tensors[key].spec
        return len(self.graph.writers(key)) < 2 and conversion(spec, order, self._target(spec)) is not None

    def _target(self, spec: TensorSpec) -> AnyLayout:
        other = Layout.NCHW if spec.layout is Layout.NHWC else Layout.NHWC
        return other if self.tagged else spec.layout

    # ---- costs

    def moved(self) -> int:
        """Elements that conversions move after turning, less those before."""
        total = sum(self._moved_at(key, order) for key, order in self.orders.items())
        for exec_key, plan in self.plans.items():
            record = self.graph.execs[exec_key]
            for key, order in zip(record.inputs, plan.inputs, strict=True):
                if key is not None and order is not None and key not in self.orders and self._fill(key) is None:
                    total += elements(self.graph.tensors[key].spec, order)
        return total

    def _moved_at(self, key: TensorKey, order: Permutation) -> int:
        graph, spec = self.graph, self.graph.tensors[key].spec
        readers = [reader for reader in graph.readers(key) if reader not in self.plans]
        cancelled = [reader for reader in readers if self._cancels(reader, key, order)]
        needed = key in self.kept or (len(cancelled) < len(readers) and not self._merges(readers, key))
        writer = next(iter(graph.writers(key)), None)
        if writer in self.plans:
            return (spec.elements if needed else 0) - spec.elements * len(cancelled)
        before = None if writer is None else self._conversion(graph.execs[writer])
        if before is not None and compose(before, order) == identity(len(order)):
            return 0 if readers or key in self.kept else -spec.elements
        return spec.elements

    def _cancels(self, reader: ExecKey, key: TensorKey, order: Permutation) -> bool:
        """True when a reader outside converts `key` back into the region's order."""
        record = self.graph.execs[reader]
        after = self._conversion(record)
        fits = after is not None and after == order and record.inputs == (key,)
        return fits and self.graph.root(record.outputs[0]) not in self.kept

    def _merges(self, readers: Sequence[ExecKey], key: TensorKey) -> bool:
        """True when the only reader transposes a reshaped `key`: what converts that back is then part of it."""
        record = self.graph.execs[readers[0]] if len(readers) == 1 and has_one_reader(self.graph, key) else None
        if record is None or self.tagged or record.command.op is not TRANSPOSE or record.inputs[0] in (None, key):
            return False
        part = record.inputs[0]
        shapes = (self.graph.tensors[value].spec.shape for value in (key, part))
        return is_dense(self.graph, part) and common_sizes(*shapes) is not None

    def _conversion(self, record: ExecSymbol) -> Permutation | None:
        key = record.inputs[0] if record.inputs else None
        if key is None or not record.optimize or (record.command.op is CONVERT_LAYOUT) is not self.tagged:
            return None
        return permutation_of(record.command, self.graph.tensors[key].spec)

    # ---- turning

    def border(self) -> list[ExecKey]:
        """The execs outside that make what the region reads."""
        read = {key: None for plan in self.plans for key in self.graph.execs[plan].inputs if key is not None}
        return [writer for key in read for writer in self.graph.writers(key) if writer not in self.plans]

    def turn(self) -> None:
        """Let each exec of the region work in the other order; behind it, its results are converted back."""
        graph = self.graph
        for exec_key in graph.execs.toposort(self.plans):
            record, plan = graph.execs[exec_key], self.plans[exec_key]
            with inherited_origin(record.origin):
                inputs = tuple(
                    key if key is None or order is None else self._turned(key, order).key
                    for key, order in zip(record.inputs, plan.inputs, strict=True)
                )
            command: AnyCommand = Command(record.command.op, plan.attrs)
            results = infer(command.op, command.attrs, graph.specs(inputs))
            graph.remove_exec(exec_key)
            outputs = tuple(self._result(*row) for row in zip(record.outputs, plan.outputs, results, strict=True))
            graph.add_exec(replace(record, command=command, inputs=inputs, outputs=outputs))
            for old, new, order in zip(record.outputs, outputs, plan.outputs, strict=True):
                if old != new:
                    self._convert(new, old, inverse(order), record.origin)

    def _result(self, key: TensorKey, order: Permutation, spec: TensorSpec) -> TensorKey:
        """The symbol itself where the turned exec writes the same, else a new one."""
        record = self.graph.tensors[key]
        if spec == record.spec and order == identity(len(order)):
            return key
        made = self.graph.add_tensor(TensorSymbol(spec, "", None, record.origin))
        self.made[key, order] = self.graph.symbol(made)
        return made

    def _turned(self, key: TensorKey, order: Permutation) -> Symbol:
        """The operand in the region's order, made once."""
        if (key, order) not in self.made:
            self.made[key, order] = self._make(key, order)
        return self.made[key, order]

    def _make(self, key: TensorKey, order: Permutation) -> Symbol:
        graph, x = self.graph, self.graph.symbol(key)
        target, fill = self._target(x.spec), self._fill(key)
        shape = (*(1 for _ in range(len(order) - x.spec.rank)), *x.shape)
        turned = replace(x.spec, shape=tuple(shape[axis] for axis in order), layout=target)
        if fill is not None:
            return graph.apply(Command(FILL, FillAttrs(fill.command.attrs.value, turned)), ())[0]
        if is_free(x.spec, order):
            whole = reshape(x, turned.shape)
            return whole if whole.spec == turned else whole.alias(turned, whole.offset, whole.strides)
        command = conversion(x.spec, order, target) if x.spec.rank == len(order) else None
        lifted = x if command is not None else reshape(x, shape)
        return graph.apply(command or Command(TRANSPOSE, TRANSPOSE.attributes(order)), (lifted,))[0]

    def _convert(self, source: TensorKey, result: TensorKey, order: Permutation, origin: str) -> None:
        """Write `result`, which was written before, from the turned one."""
        graph = self.graph
        command = conversion(graph.tensors[source].spec, order, graph.tensors[result].spec.layout)
        assert command is not None
        graph.add_exec(ExecSymbol(command, (source,), (result,), "", origin))


def _meeting(match: Match) -> Replacement | None:
    """Two conversions are one, or none."""
    for op in CONVERSIONS:
        inner = match.producer(0, op)
        if inner is None or inner.inputs[0] is None:
            continue
        x, y = match.graph.symbol(inner.inputs[0]), match.input(0)
        first, second = permutation_of(inner.command, x.spec), permutation_of(match.command, y.spec)
        result = match.graph.tensors[match.record.outputs[0]].spec
        if first is None or second is None:
            # To blocks and back.
            return (x,) if result == x.spec else None
        whole = compose(first, second)
        if whole == identity(len(whole)) and result == x.spec:
            return (x,)
        command = conversion(x.spec, whole, result.layout)
        return None if command is None else match.graph.apply(command, (x,))
    return None


def _reshaped_meeting(match: Match) -> Replacement | None:
    """A transposition of a reshaped one is one, by sizes that both shapes are made of: a shuffle of channels, say."""
    graph, y = match.graph, match.input(0)
    root = graph.symbol(graph.root(y.key))
    inner = producer(graph, root.key, TRANSPOSE)
    if inner is None or root == y or not has_one_reader(graph, root.key) or root.key in match.wanted:
        return None
    x = graph.symbol(cast(TensorKey, inner.inputs[0]))
    sizes = common_sizes(root.shape, y.shape) if is_dense(graph, y.key) and is_dense(graph, x.key) else None
    if sizes is None or x.spec.layout is not match.result.layout:
        return None
    pieces, of_root, of_y = sizes
    before = [piece for axis in inverse(inner.command.attrs.permutation) for piece in of_root[axis]]
    after = [piece for axis in match.command.attrs.permutation for piece in of_y[axis]]
    parts = reshape(x, [pieces[piece] for piece in before])
    moved = parts if before == after else transpose(parts, tuple(before.index(piece) for piece in after))
    return (reshape(moved, match.result.shape),)


def common_sizes(first: Shape, other: Shape) -> tuple[list[int], list[range], list[range]] | None:
    """The sizes that two shapes of as many elements are made of, and which of them each axis has; None for no such.

    >>> common_sizes((2, 12, 5), (2, 3, 4, 5))
    ([2, 3, 4, 5], [range(0, 1), range(1, 3), range(3, 4)], [range(0, 1), range(1, 2), range(2, 3), range(3, 4)])
    """
    ends = [[1, *accumulate(shape, operator.mul)] for shape in (first, other)]
    cuts: list[int] = []
    for cut in sorted((*ends[0], *ends[1])):
        if not cuts or cuts[-1] != cut:
            cuts.append(cut)
    if 0 in cuts or ends[0][-1] != ends[1][-1] or any(large % small for small, large in pairwise(cuts)):
        return None
    axes = [[range(cuts.index(begin), cuts.index(end)) for begin, end in pairwise(row)] for row in ends]
    return [large // small for small, large in pairwise(cuts)], axes[0], axes[1]


MEETINGS: tuple[Rule, ...] = (
    *(Rule(f"{op.name} of a conversion", op, _meeting) for op in CONVERSIONS),
    Rule("transpose of a reshaped transpose", TRANSPOSE, _reshaped_meeting),
)
