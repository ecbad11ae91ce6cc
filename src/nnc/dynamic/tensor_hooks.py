"""Functions that see gradients of single values on their way, as PyTorch's `register_hook` and `retain_grad` have them.

    h.register_hook(f)        g becomes f(g), unless that is None, for all that h was computed from
    h.retain_grad()           h.grad has it behind `backward`, though h is no leaf

A value that was computed keeps its hooks at its place in the record, so they are heard when nobody holds it any more.
All gradients are of one pass; behind a hook that changed g those of older places are asked for again, with the sum of
h · (f(g) - g) beside the output: gradients are linear in g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias
from weakref import ReferenceType, ref

from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor
from nnc.dynamic.record import Place, RecordedNode, RecordedOutput, RecordedView, node_of
from nnc.dynamic.variable import Variable
from nnc.errors import ShapeError, UsageError

# Gets a gradient, and gives another one or None.
GradientHook: TypeAlias = Callable[[Variable], Variable | None]


class ValueHooks:
    """What is asked of the gradient of one value: in order, and which variables keep it."""

    def __init__(self, tensor: Tensor, root: Tensor) -> None:
        self.tensor, self.root = tensor, root
        self.hooks: list[GradientHook] = []
        self.retaining: list[ReferenceType[Variable]] = []

    def passed(self, gradient: Variable) -> Variable:
        """The gradient behind all hooks, which variables that retain it have."""
        gradient = through(self.hooks, gradient)
        for reference in self.retaining:
            variable = reference()
            if variable is not None:
                variable.grad = gradient if variable.grad is None else variable.grad + gradient
        return gradient


def through(hooks: Iterable[GradientHook], gradient: Variable) -> Variable:
    """The gradient behind these hooks; ShapeError for one of another shape."""
    for hook in tuple(hooks):
        other = hook(gradient)
        if other is None:
            continue
        if not isinstance(other, Variable) or other.shape != gradient.shape:
            got = str(other.spec) if isinstance(other, Variable) else type(other).__name__
            raise ShapeError("register_hook", got=got, need=f"{gradient.spec} or None", origin=caller_origin())
        gradient = other.detach()
    return gradient


def hooks_of(variable: Variable) -> ValueHooks:
    """Those of a value that was computed; UsageError for a constant."""
    place = variable.place
    if place is None:
        got, fix = f"a constant {variable.spec}", "x.requires_grad_() before, outside of no_grad()"
        raise UsageError("register_hook", got=got, need="a value with a gradient", fix=fix, origin=caller_origin())
    home = place if isinstance(place, RecordedView) else node_of(place)
    index = place.index if isinstance(place, RecordedOutput) else 0
    if home.hooks is None:
        home.hooks = {}
    known = home.hooks.get(index)
    if known is None:
        known = home.hooks[index] = ValueHooks(variable.tensor, variable.root)
    return known


def retain(variable: Variable) -> None:
    """Let `variable.grad` have its gradient behind each `backward`."""
    hooks = hooks_of(variable)
    if all(reference() is not variable for reference in hooks.retaining):
        hooks.retaining.append(ref(variable))


@dataclass(frozen=True, slots=True, eq=False)
class HookedPlace:
    """A place of the record with hooks."""

    place: Place
    hooks: ValueHooks


def hooked_places(nodes: Iterable[RecordedNode | RecordedView]) -> list[HookedPlace]:
    """Those among these nodes and views, given by number: the newest first."""
    rows: list[HookedPlace] = []
    for node in nodes:
        for index, hooks in sorted((node.hooks or {}).items()):
            if hooks.hooks or hooks.retaining:
                several = isinstance(node, RecordedNode) and len(node.outputs) > 1
                rows.append(HookedPlace(RecordedOutput(node, index) if several else node, hooks))  # type: ignore[arg-type]  # a node
    return rows[::-1]


def accumulate(leaf: Variable, gradient: Variable) -> None:
    """Add a gradient to that of a leaf, behind its hooks; those for afterwards get the leaf."""
    heard = leaf.leaf_hooks
    if heard is not None:
        gradient = through(heard[0], gradient)
    known = leaf.grad
    leaf.grad = gradient if known is None else known + gradient
    if heard is not None:
        for hook in tuple(heard[1]):
            hook(leaf)


class HookedGraph(Protocol):
    """A graph, seen from its hooks."""

    def backward(
        self, outputs: Sequence[Variable], inputs: Sequence[Variable], *, constant: bool
    ) -> tuple[Variable, ...]:
        """d(sum of outputs) / d(input)."""

    def at_place(self, tensor: Tensor, place: Place, root: Tensor) -> Variable:
        """A variable over a recorded tensor."""


def gradients_through(
    graph: HookedGraph, output: Variable, leaves: Sequence[Variable], rows: Sequence[HookedPlace]
) -> Sequence[Variable]:
    """d output / d leaf, where hooks on the way change gradients."""
    hooked = [graph.at_place(row.hooks.tensor, row.place, row.hooks.root) for row in rows]
    outputs, gradients = [output], [*graph.backward([output], [*hooked, *leaves], constant=True)]
    for place, (row, value) in enumerate(zip(rows, hooked, strict=True)):
        given = gradients[place]
        changed = row.hooks.passed(given)
        if changed is not given:
            outputs.append((value * (changed - given)).sum())
            older = [*hooked[place + 1 :], *leaves]
            gradients[place + 1 :] = graph.backward(outputs, older, constant=True)
    return gradients[len(rows) :]
