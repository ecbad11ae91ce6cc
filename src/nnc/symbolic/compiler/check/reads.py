"""Each read of a plan, checked without running it: whose value is in the bytes at that moment?

a root holds its bytes from its first writing (or from outside, or by its fill) until another block is written there
an exec may write over what it reads where its operator allows that, and nowhere else
what an exec's bodies write is found by following them (`check.lent_memory`), and is lost to all others behind it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from itertools import combinations

from nnc.classes import dataclass
from nnc.errors import VerificationError
from nnc.symbolic.compiler.check.writes import Span, exec_text
from nnc.symbolic.compiler.order.inplace import shareable
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecSymbol, TensorKey


@dataclass(slots=True)
class Holders:
    """Which roots hold their bytes, who has taken those of the others, and all bytes `written` so far.

    Roots without a span lie in memory that no plan has a say in. `parts` says of which root each part is one.
    """

    spans: Mapping[TensorKey, Span]
    parts: Mapping[TensorKey, TensorKey]
    now: dict[TensorKey, None] = field(default_factory=dict)
    taken_by: dict[TensorKey, str] = field(default_factory=dict)
    written: dict[Span, None] = field(default_factory=dict)

    def take(self, root: TensorKey, text: str) -> None:
        """`root` is written; who else had bytes there has lost them. What is lost does not come back by a part."""
        if root in self.spans and root not in self.now and root not in self.taken_by:
            self.evict(self.spans[root], text, root)
            self.now[root] = None

    def share(self, roots: Iterable[TensorKey]) -> None:
        """These hold their bytes from the beginning, some of them perhaps the same ones."""
        self.now.update((root, None) for root in roots if root in self.spans)

    def evict(self, span: Span, text: str, by: TensorKey | None = None) -> None:
        """These bytes are written, by a root that its own parts do not lose them to."""
        self.written[span] = None
        for other in [other for other in self.now if meet(self.spans[other], span)]:
            if not self.is_part(other, by):
                self.lose(other, text)

    def lose(self, root: TensorKey, text: str) -> None:
        """`root` holds its bytes no more, if it did."""
        if root in self.now:
            del self.now[root]
            self.taken_by[root] = text

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

    def copy(self) -> Holders:
        """The same at this moment, for what comes behind it on one of several ways."""
        return Holders(self.spans, self.parts, dict(self.now), dict(self.taken_by), dict(self.written))


Enter = Callable[[int, Holders], Iterable[Span]]


def check_steps(
    planned: PlannedGraph, steps: Iterable[int], holders: Holders, scratch: Mapping[int, Span], enter: Enter
) -> None:
    """VerificationError, with the exec and the user's line, where a step reads what its bytes no longer hold.

    `scratch` are the bytes of kernels' workspaces, by step. A step with bodies is entered: what comes back are the
    bytes that these write.
    """
    graph, lives = planned.graph, planned.lives
    for step in steps:
        key = planned.order[step]
        record = graph.execs[key]
        text = exec_text(graph, record)
        for root in lives.fills.get(step, ()):
            holders.take(root, f"the fill before {text}")
        read, written = graph.roots(record.inputs), graph.roots(record.outputs)
        for root in sorted(read):
            holders.check(graph, root, text)
        _check_apart(graph, written, holders, text)
        if key in planned.inner:
            for span in enter(step, holders):
                holders.evict(span, text)
        else:
            _check_sharing(graph, record, read, holders, text)
        if step in scratch:
            _check_disjoint(graph, (*read, *written), scratch[step], holders, f"the workspace of {text}")
            holders.evict(scratch[step], f"the workspace of {text}")
        for root in written:
            holders.take(root, text)


def _check_apart(graph: SymbolicGraph, outputs: Iterable[TensorKey], holders: Holders, text: str) -> None:
    """No two values of an exec are written to the same bytes."""
    for value, other in combinations(sorted(holders.spans.keys() & outputs), 2):
        if meet(holders.spans[value], holders.spans[other]):
            raise VerificationError(
                f"memory plan: {text} writes {graph.label(value)} and {graph.label(other)} to the same bytes"
            )


def _check_sharing(
    graph: SymbolicGraph, record: ExecSymbol, read: Iterable[TensorKey], holders: Holders, text: str
) -> None:
    """What an exec writes over while it reads it."""
    allowed, written = shareable(graph, record), sorted(holders.spans.keys() & graph.roots(record.outputs))
    for root in sorted(read):
        for other in written:
            if root == other or (root, other) in allowed or holders.is_part(root, other):
                continue
            if root in holders.spans and meet(holders.spans[root], holders.spans[other]):
                raise VerificationError(
                    f"memory plan: {text} writes over {graph.label(root)}, which it reads out of step"
                )


def _check_disjoint(graph: SymbolicGraph, roots: Iterable[TensorKey], span: Span, holders: Holders, text: str) -> None:
    """The bytes are beside everything that their exec uses."""
    for root in sorted(roots):
        if root in holders.spans and meet(holders.spans[root], span):
            raise VerificationError(f"memory plan: {text} lies on {graph.label(root)}, which it uses")


def meet(first: Span, other: Span) -> bool:
    """Whether two spans have a byte in common."""
    return first[0] < other[1] and other[0] < first[1]
