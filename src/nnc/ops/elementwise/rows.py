"""Makers of rows: what pointwise operators of one operand, of two, and of truth values have in common.

exp = unary("exp", "y = e^x", np.exp, lambda g, x, y: multiply(g, y), CONTINUOUS)

A row says what the operator means: its name, a formula to read, the same in NumPy, and the derivative. The reference
backend computes by the third.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from nnc.core.values.dtype import BOOL, C64, C128, F32, F64, DType
from nnc.core.values.spec import TensorSpec, broadcast_shapes
from nnc.errors import DTypeError
from nnc.graph import OpAttr, Registry, default_registry
from nnc.ops.elementwise.mixed import MixedOperator
from nnc.ops.examples import TRUTH, Example
from nnc.ops.function import BinaryOperator, ComplexOperator, FunctionOperator, UnaryOperator
from nnc.ops.movement.broadcast import sum_to
from nnc.ops.operand import Operand
from nnc.ops.precision import FULL, Precision
from nnc.ops.rules import (
    FLOATS,
    Applied,
    Gradients,
    Inplace,
    NoAttrs,
    NotDifferentiable,
    Pattern,
    Specs,
    check_kinds,
    describe,
    single,
)

Gradient = Callable[[Applied[NoAttrs], Gradients], Gradients]


Unary = Callable[[Operand, Operand, Operand], Operand]


Binary = Callable[[Operand, Operand, Operand, Operand], Operand | None]
# y = forward(*arrays), in the type that the elements are computed in: what the operator means, in NumPy.
# `Any`: elements of any type, of one array or of two.
Forward = Callable[..., NDArray[Any]]
FORWARD = OpAttr[Forward]("forward")


TRUTH_VALUE = NotDifferentiable("a truth value does not change smoothly")


def infer_same(attrs: object, specs: Specs) -> Specs:
    """One spec for all operands after broadcasting."""
    first = specs[0]
    for other in specs[1:]:
        if other.dtype is not first.dtype:
            got = ", ".join(map(str, specs))
            raise DTypeError("pointwise", got=got, need="one element type", fix="cast() one of them")
    shape = broadcast_shapes("pointwise", *[spec.shape for spec in specs])
    return (first if shape == first.shape else replace(first, shape=shape),)


def same(kinds: tuple[str, ...]) -> Callable[[NoAttrs, Specs], Specs]:
    """The rule of one spec for all operands, of these kinds."""

    def infer(attrs: NoAttrs, specs: Specs) -> Specs:
        check_kinds(kinds, *specs)
        return infer_same(attrs, specs)

    return infer


def infer_predicate(attrs: NoAttrs, specs: Specs) -> Specs:
    """bool, of operands of one element type."""
    return (replace(infer_same(attrs, specs)[0], dtype=BOOL),)


def infer_logical(attrs: NoAttrs, specs: Specs) -> Specs:
    """bool, of bool."""
    for spec in specs:
        if spec.dtype is not BOOL:
            raise DTypeError("logical", got=", ".join(map(str, specs)), need="bool operands", fix="compare first")
    return infer_same(attrs, specs)


def _infer_part(attrs: NoAttrs, specs: Specs) -> Specs:
    check_kinds(("complex",), *specs)
    return (replace(specs[0], dtype=real_dtype(specs[0].dtype)),)


def real_dtype(dtype: DType) -> DType:
    """The element type of real and imaginary parts.

    >>> real_dtype(C128), real_dtype(C64)
    (f64, f32)
    """
    return F64 if dtype is C128 else F32


def part(name: str, doc: str, forward: Forward, derivative: Unary, *, keeps_reals: bool = False) -> ComplexOperator:
    """A row `y = f(z)` of real numbers y for complex z; `derivative(g, z, y)` gives the gradient of z."""
    row = ComplexOperator(name, doc, keeps_reals=keeps_reals)
    FORWARD.set(row, forward)
    example = Example(NoAttrs(), (TensorSpec((4, 4), C64),))
    describe(row, infer=_infer_part, gradient=_of_unary(derivative), pattern=Pattern.ELEMENTWISE, example=example)
    return row


def unary(
    name: str,
    doc: str,
    forward: Forward,
    derivative: Unary,
    kinds: tuple[str, ...] = FLOATS,
    precision: Precision = FULL,
    registry: Registry = default_registry,
) -> UnaryOperator:
    """A row `y = forward(x)` on these kinds; `derivative(g, x, y)` gives the gradient of x."""
    row = UnaryOperator(name, ("x",), doc, registry)
    FORWARD.set(row, forward)
    describe(
        row,
        infer=same(kinds),
        precision=precision,
        gradient=_of_unary(derivative),
        inplace=Inplace(allowed=((0, 0),)),
        pattern=Pattern.ELEMENTWISE,
    )
    return row


def binary(
    name: str,
    doc: str,
    forward: Forward | None,
    left: Binary,
    right: Binary,
    kinds: tuple[str, ...] = FLOATS,
    precision: Precision = FULL,
) -> BinaryOperator:
    """A row `y = forward(a, b)`; `left(g, a, b, y)`, `right(g, a, b, y)` give gradients before broadcasting is undone.

    Without a `forward` the reference backend has a kernel of its own.
    """
    row = BinaryOperator(name, ("a", "b"), doc)
    _describe_binary(row, forward, _of_binary(left, right), same(kinds), precision)
    return row


def mixed(
    name: str,
    doc: str,
    forward: Forward | None,
    left: Binary,
    right: Binary,
    kinds: tuple[str, ...] = FLOATS,
    precision: Precision = FULL,
) -> MixedOperator:
    """A row as `binary` has it, where one of a and b may be a number."""
    row = MixedOperator(name, ("a", "b"), doc)
    _describe_binary(row, forward, _of_binary(left, right), same(kinds), precision)
    return row


def _describe_binary(
    row: FunctionOperator,
    forward: Forward | None,
    gradient: Gradient,
    infer: Callable[[NoAttrs, Specs], Specs],
    precision: Precision,
) -> None:
    if forward is not None:
        FORWARD.set(row, forward)
    inplace = Inplace(allowed=((0, 0), (1, 0)))
    describe(row, infer=infer, precision=precision, gradient=gradient, inplace=inplace, pattern=Pattern.BROADCAST)


def _of_unary(derivative: Unary) -> Gradient:
    def gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
        return (derivative(single(gradients), call.inputs[0], call.outputs[0]),)

    return gradient


def _of_binary(left: Binary, right: Binary) -> Gradient:
    def gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
        g = single(gradients)
        a, b = call.inputs
        sides = [
            rule(g, a, b, call.outputs[0]) if wanted else None
            for rule, wanted in zip((left, right), call.needed, strict=True)
        ]
        return tuple(
            None if side is None else sum_to(side, operand.shape) for side, operand in zip(sides, (a, b), strict=True)
        )

    return gradient


def predicate(name: str, doc: str, forward: Forward) -> BinaryOperator:
    """A row `y = a ∘ b` of truth values y for operands of any kind."""
    row = BinaryOperator(name, ("a", "b"), doc)
    FORWARD.set(row, forward)
    describe(row, infer=infer_predicate, gradient=TRUTH_VALUE, pattern=Pattern.BROADCAST)
    return row


def logical(name: str, doc: str, forward: Forward) -> BinaryOperator:
    """A row `y = a ∘ b` of truth values."""
    row = BinaryOperator(name, ("a", "b"), doc)
    FORWARD.set(row, forward)
    describe(
        row,
        infer=infer_logical,
        gradient=TRUTH_VALUE,
        example=Example(NoAttrs(), (TRUTH, TRUTH)),
        inplace=Inplace(allowed=((0, 0), (1, 0))),
        pattern=Pattern.BROADCAST,
    )
    return row
