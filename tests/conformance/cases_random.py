"""Rows of the random operators: every backend draws the numbers that the definition names."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import FLOATS, Argument, Case, constant

from nnc.core.values.dtype import I64
from nnc.core.values.spec import Shape, spec
from nnc.ops.random.random import DROPOUT, RANDOM_NORMAL, RANDOM_UNIFORM, DropoutAttrs, NormalAttrs, UniformAttrs

SHAPES: tuple[Shape, ...] = ((3, 5), (), (0, 2), (257,))


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for dtype in FLOATS:
        for shape in SHAPES:
            what, note = spec(shape, dtype), f"{dtype}{list(shape)}"
            counter = Argument((), constant(len(shape)), I64)
            yield Case(RANDOM_UNIFORM, UniformAttrs(what, -1.5, 2.0, 7), (counter,), (dtype,), note)
            yield Case(RANDOM_NORMAL, NormalAttrs(what, 0.5, 2.0, 2**64 - 1), (counter,), (dtype,), note)
    for count in (-1, 2**62):
        far = Argument((), constant(count), I64)
        yield Case(RANDOM_UNIFORM, UniformAttrs(spec((9,))), (far,), (spec(()).dtype,), f"counter{count}")
    for shape in SHAPES:
        for attrs in (DropoutAttrs(0.25, 3), DropoutAttrs(0.0), DropoutAttrs(0.5, 1, entirety=True)):
            note = f"{attrs.rate}{'-whole' * attrs.entirety}"
            yield Case(DROPOUT, attrs, (Argument(shape), Argument((), constant(11), I64)), FLOATS, note)
