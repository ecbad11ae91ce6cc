"""Rows of optimizers: (w', states') = op(g, w, states, rate[, step]).

    ADAM = update("adam", AdamAttrs, {"m": "moment", "v": "variance"}, counted=True, work=12, doc="w' = …")

A row says which states are kept beside a parameter (by the letter of the formula, and the name that files have), which
scalars steer it, and what a step does. Everything else follows: names and specs of inputs and outputs, what may share
memory, how a batch of it is one command, an example. `nnc.nn` derives its optimizer from the row's attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.graph import Op, Registry, default_registry
from nnc.ops.batching import batched_before
from nnc.ops.composed.custom import KERNEL, ArrayKernel
from nnc.ops.examples import MATRIX, SCALAR, Example
from nnc.ops.rules import FLOATS, NUMBERS, Inplace, NotDifferentiable, Specs, check_kinds, describe
from nnc.ops.work import per_element

A = TypeVar("A")

_REASON = NotDifferentiable("an update is the end of a training step; differentiate the loss instead")


class UpdateOperator(Op[A]):
    """One step of an optimizer: `states` are the names of what it keeps, `scalars` those of what steers it.

    What is `whole` reads more than one element at once, such as a parameter's norm.
    """

    __slots__ = ("_specs_of", "scalars", "states", "whole")

    def __init__(
        self,
        name: str,
        attributes: type[A],
        states: Mapping[str, str],
        scalars: tuple[str, ...],
        doc: str,
        registry: Registry,
        specs_of: Callable[[TensorSpec], tuple[TensorSpec, ...]] | None,
        whole: bool,
    ) -> None:
        super().__init__(name, attributes, ("g", "w", *states, *scalars), ("w", *states), registry=registry, doc=doc)
        self.states = tuple(states.values())
        self.scalars = scalars
        self._specs_of = specs_of
        self.whole = whole

    def state_specs(self, parameter: TensorSpec) -> tuple[TensorSpec, ...]:
        """Specs of the state tensors: the parameter's, unless an optimizer keeps less."""
        return (parameter,) * len(self.states) if self._specs_of is None else self._specs_of(parameter)


def update(
    name: str,
    attributes: type[A],
    states: Mapping[str, str],
    *,
    counted: bool = False,
    whole: bool = False,
    work: int,
    doc: str,
    infer: Callable[[A, Specs], Specs] | None = None,
    inplace: Inplace | None = None,
    specs_of: Callable[[TensorSpec], tuple[TensorSpec, ...]] | None = None,
    kernel: ArrayKernel[A] | None = None,
    registry: Registry = default_registry,
) -> UpdateOperator[A]:
    """The row of an optimizer that keeps `states`, by letter: one that is `counted` reads the number of the step too.

    What is not `whole` computes element by element, so that many parameters can be one. `kernel` computes it in NumPy
    where the reference backend has no row of its own.
    """
    scalars = ("rate", "step") if counted else ("rate",)
    row = UpdateOperator(name, attributes, states, scalars, doc, registry, specs_of, whole)
    specs = (MATRIX, MATRIX, *row.state_specs(MATRIX))
    describe(
        row,
        infer=infer or (lambda attrs, specs: infer_update(row, specs)),
        gradient=_REASON,
        inplace=inplace or _in_place(len(states)),
        work=per_element(work),
        batched=None if whole else batched_before(*range(-len(scalars), 0)),
        example=Example(attributes(), (*specs, *(SCALAR for _ in scalars)), fixed=_last(len(specs), len(scalars))),
    )
    if kernel is not None:
        KERNEL.set(row, kernel)
    return row


# `Any`: optimizers of all attribute types.
def row_of(command: AnyCommand) -> UpdateOperator[Any]:
    """The row of an optimizer's command; AttributeValueError for a command of another kind."""
    op = command.op
    if isinstance(op, UpdateOperator):
        return op
    names = [row.name for row in op.registry.ops() if isinstance(row, UpdateOperator)]
    need, fix = f"one of {', '.join(names)}", "make the row of your own with nnc.ops.optimizer.update"
    raise AttributeValueError(op.name, got="no optimizer", need=need, fix=fix, origin=caller_origin())


def infer_update(op: UpdateOperator[A], specs: Specs) -> Specs:
    """Gradient and states as the parameter, scalars beside them."""
    g, w, *rest = specs
    count = len(op.states)
    states, scalars = rest[:count], rest[count:]
    check_kinds(FLOATS, *specs[: count + 2])
    check_kinds(NUMBERS, *scalars)
    if any(spec.shape != w.shape or spec.dtype is not w.dtype for spec in (g, *states)):
        raise ShapeError(op.name, got=", ".join(map(str, specs)), need=f"gradient and state as the parameter, {w}")
    if any(spec.shape != () for spec in scalars):
        raise ShapeError(op.name, got=", ".join(map(str, scalars)), need="scalars for rate and step")
    return (w, *states)


def _in_place(states: int) -> Inplace:
    """Parameter and states stay where they are; any result may take over the gradient's memory."""
    stay = ((index + 1, index) for index in range(states + 1))
    return Inplace(allowed=(*stay, *((0, index) for index in range(states + 1))))


def _last(count: int, scalars: int) -> tuple[int, ...]:
    return tuple(range(count, count + scalars))
