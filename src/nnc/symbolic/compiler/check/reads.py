"""Each read of a plan, checked without running it: whose value is in the bytes at that moment?

a root holds its bytes from its first writing (or from outside, or by its fill) until another block is written there
an exec may write over what it reads where its operator allows that, and nowhere else
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import combinations

from nnc.classes import dataclass
from nnc.errors import VerificationError
from nnc.symbolic.compiler.check.writes import Span, exec_text
from nnc.symbolic.compiler.order.inplace import shareable
from nnc.symbolic.compiler.place.liveness import LiveRanges, OuterMemory
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey


def check_reads(
    graph: SymbolicGraph,
    order: Sequence[ExecKey],
    lives: LiveRanges,
    offsets: Mapping[int, int],
    kept: Iterable[TensorKey],
    elsewhere: Collection[TensorKey] = (),
) -> None:
    """VerificationError, with the exec and the user's line, where a step reads what its bytes no longer hold.

    `offsets` are those of blocks, by their identity. The roots `kept` are read at the end of the run. Those `elsewhere`
    are not in their blocks yet.
    """
    blocks = (*lives.blocks(), *(life for inside in lives.inside.values() for life in inside))
    bytes_of = {
        id(life): (offsets[id(life)], offsets[id(life)] + life.nbytes) for life in blocks if id(life) in offsets
    }
    spans = {
        root: _span(graph, root, bytes_of[id(life)][0] + lives.shifts.get(root, 0))
        for root, life in lives.of.items()
        if id(life) in bytes_of and root not in elsewhere
    }
    holders = _Holders(spans, lives.parts)
    for life in lives.of.values():
        if life.outside:
            holders.take(life.roots[0], "what comes from outside")
            holders.share(root for root in life.roots[1:] if not graph.writers(root))
    for step, key in enumerate(order):
        record = graph.execs[key]
        text = exec_text(graph, record)
        for root in lives.fills.get(step, ()):
            holders.take(root, f"the fill before {text}")
        read = graph.roots(record.inputs)
        for root in sorted(read):
            holders.check(graph, root, text)
        _check_sharing(graph, record, read, holders, text, _ending(lives, step))
        if step in lives.workspaces and id(lives.workspaces[step]) in bytes_of:
            scratch = bytes_of[id(lives.workspaces[step])]
            _check_beside(
                graph, graph.roots((*record.inputs, *record.outputs)), scratch, holders, f"the workspace of {text}"
            )
            holders.evict(scratch, f"the workspace of {text}")
        for life in lives.inside.get(step, ()):
            if id(life) in bytes_of:
                lasting = set(graph.roots(record.inputs)) - _ending(lives, step)
                _check_beside(graph, lasting, bytes_of[id(life)], holders, f"a block inside {text}")
                holders.evict(bytes_of[id(life)], f"a block inside {text}")
        for root in graph.roots(record.outputs):
            holders.take(root, text)
    for root in lives.fills.get(len(order), ()):
        holders.take(root, "the fill at the end of the run")
    for root in sorted(kept):
        holders.check(graph, root, "the end of the run")


@dataclass(slots=True)
class _Holders:
    """Which roots hold their bytes, and who has taken those of the others."""

    spans: Mapping[TensorKey, Span]
    parts: Mapping[TensorKey, TensorKey]
    now: dict[TensorKey, None] = field(default_factory=dict)
    taken_by: dict[TensorKey, str] = field(default_factory=dict)

    def take(self, root: TensorKey, text: str) -> None:
        """`root` is written; who else had bytes there has lost them. What is lost does not come back by a part."""
        if root in self.spans and root not in self.now and root not in self.taken_by:
            self.evict(self.spans[root], text, root)
            self.now[root] = None

    def share(self, roots: Iterable[TensorKey]) -> None:
        """Carried values that are the same one, in the block of the first of them."""
        self.now.update((root, None) for root in roots if root in self.spans)

    def evict(self, span: Span, text: str, by: TensorKey | None = None) -> None:
        """These bytes are written, by a root that its own parts do not lose them to."""
        for other in [other for other in self.now if _meet(self.spans[other], span)]:
            if not self.is_part(other, by):
                del self.now[other]
                self.taken_by[other] = text

    def is_part(self, root: TensorKey, whole: TensorKey | None) -> bool:
        """True when `root` is a part of `whole`, or a part of its parts."""
        while root in self.parts:
            root = self.parts[root]
            if root == whole:
                return True
        return False

    def check(self, graph: SymbolicGraph, root: TensorKey, text: str) -> None:
        """VerificationError when `root` does not hold its bytes."""
        if root not in self.spans or root in self.now:
            return
        lost = self.taken_by.get(root)
        why = f"whose bytes {lost} has written over" if lost else "which nothing has written before"
        raise VerificationError(f"memory plan: {text} reads {graph.label(root)}, {why}")


def _check_sharing(
    graph: SymbolicGraph,
    record: ExecSymbol,
    read: Iterable[TensorKey],
    holders: _Holders,
    text: str,
    ending: Collection[TensorKey],
) -> None:
    """What an exec writes over while it reads it, and twice; a loop may end where it began."""
    written = holders.spans.keys() & graph.roots(record.outputs)
    for value, other in combinations(sorted(written), 2):
        if _meet(holders.spans[value], holders.spans[other]):
            raise VerificationError(
                f"memory plan: {text} writes {graph.label(value)} and {graph.label(other)} to the same bytes"
            )
    allowed = shareable(graph, record)
    for root in sorted(set(read).difference(ending)):
        for other in sorted(written):
            if root == other or (root, other) in allowed or holders.is_part(root, other):
                continue
            if root in holders.spans and _meet(holders.spans[root], holders.spans[other]):
                raise VerificationError(
                    f"memory plan: {text} writes over {graph.label(root)}, which it reads out of step"
                )


def _ending(lives: LiveRanges, step: int) -> frozenset[TensorKey]:
    """What may be written over in a body, where it is checked whether it is read behind that, or is handed on there."""
    outer = lives.outer.get(step, OuterMemory())
    handed_on = (root for output in lives.permuted.get(step, ()) for root in lives.of[output].roots)
    return frozenset((*lives.lent.get(step, ()), *outer.placed.values(), *handed_on))


def _check_beside(graph: SymbolicGraph, roots: Iterable[TensorKey], span: Span, holders: _Holders, text: str) -> None:
    """The bytes are beside everything that their exec uses."""
    for root in sorted(roots):
        if root in holders.spans and _meet(holders.spans[root], span):
            raise VerificationError(f"memory plan: {text} lies on {graph.label(root)}, which it uses")


def _span(graph: SymbolicGraph, root: TensorKey, begin: int) -> Span:
    return (begin, begin + graph.tensors[root].spec.nbytes)


def _meet(first: Span, other: Span) -> bool:
    return first[0] < other[1] and other[0] < first[1]
