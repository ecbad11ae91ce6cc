"""Dead branches: a `case..of` whose choice is a constant is the branch that it names, and the others go."""

from __future__ import annotations

from nnc.core.values.command import Command
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic.control import CASE_OF, CaseAttrs
from nnc.symbolic.ir import Body
from nnc.symbolic.passes.constants import uniform
from nnc.symbolic.rewrite import Match, Replacement, Rule


def _known_choice(match: Match) -> Replacement | None:
    """The execs of the chosen branch, on the operands themselves."""
    attrs: CaseAttrs = match.command.attrs
    choice = uniform(match.graph, match.record.inputs[0])
    if choice is None or attrs.function is not None or attrs.chosen != 1:
        return None
    body = _chosen(attrs, choice)
    graph, operands = match.graph, match.record.inputs[1:]
    # Views inside a branch are views of its operands' own memory.
    if body is None or any(key is None or graph.root(key) != key for key in operands):
        return None
    mapped = {inner: outer for inner, outer in zip(body.parameters, operands, strict=True) if outer is not None}
    graph.graft(body.graph, body.graph.execs.toposort(), body.results, mapped)
    results = (graph.symbol(mapped[key]) for key in body.results)
    # What the branch hands on is copied: a wanted output needs memory of its own, and data transfer drops the others.
    return tuple(
        graph.apply(Command(contiguous, NoAttrs()), [symbol])[0] if key in body.parameters else symbol
        for key, symbol in zip(body.results, results, strict=True)
    )


def _chosen(attrs: CaseAttrs, choice: float) -> Body | None:
    inside = 0 <= choice < len(attrs.branches)
    return attrs.branches[int(choice)] if inside else attrs.otherwise


BRANCHES: tuple[Rule, ...] = (Rule("known choice", CASE_OF, _known_choice),)
