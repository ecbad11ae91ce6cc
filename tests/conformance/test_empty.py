"""Operands without elements: rows of the conformance table of which each size in turn is 0, native beside NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.conformance.case import Argument, Array, Values
from tests.conformance.cases import CASES, Case
from tests.conformance.runs import BACKENDS, REFERENCE, check_agreement, run

from nnc.core.running.dispatch import Backend
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, DType
from nnc.errors import NncError
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.operators import OPERATORS
from nnc.ops.rules import infer
from nnc.ops.sequence.recurrent import LSTM, RecurrentAttrs

MOST = 1 << 16
BIG = 1 << 40


def plain(generator: np.random.Generator, shape: tuple[int, ...], earlier: object) -> Array:
    """Ones for numbers alone, among them counts of updates, zeros elsewhere."""
    return np.zeros(shape) if shape else np.ones(shape)


def emptied(case: Case, dtype: DType, values: Values = plain) -> Iterator[Case]:
    """The row with 0 for each of its sizes, wherever that stands; those that the operator takes."""
    present = [argument for argument in case.arguments if argument is not None]
    for size in sorted({size for argument in present for size in argument.shape}):
        arguments = tuple(argument and _without(argument, size, values) for argument in case.arguments)
        changed = replace(case, arguments=arguments)
        try:
            results = infer(case.op, case.attrs, changed.specs(dtype))
        except NncError:
            continue
        if all(math.prod(spec.shape) <= MOST for spec in (*results, *filter(None, changed.specs(dtype)))):
            yield changed


def usual(case: Case) -> DType:
    """f32 where the row takes it, else its first element type."""
    return F32 if F32 in case.dtypes else case.dtypes[0]


def given(backend: Backend, case: Case, dtype: DType) -> list[Array]:
    """The results; none where zeros are refused: an index outside of an axis without places, a singular matrix."""
    try:
        return run(backend, case, dtype, "contiguous", ())
    except NncError:
        return []


def _without(argument: Argument, size: int, values: Values) -> Argument:
    return replace(argument, shape=tuple(0 if n == size else n for n in argument.shape), values=values)


@pytest.mark.turns(24)
@pytest.mark.parametrize("name", [op.name for op in OPERATORS])
def test_what_has_no_elements_is_computed_as_by_numpy(name: str) -> None:
    """Products of no columns were a ZeroDivisionError, convolutions without filters a ValueError of NumPy's."""
    native = BACKENDS["llvm"]
    cases = [(changed, usual(row)) for row in CASES if row.op.name == name for changed in emptied(row, usual(row))]
    for case, dtype in cases:
        specs = case.specs(dtype)
        results = infer(case.op, case.attrs, specs)
        wanted = given(REFERENCE, case, dtype)
        if native.refusal(command := Command(case.op, case.attrs), specs, results):
            continue
        native.preferences(command, specs, results)
        got = given(native, case, dtype)
        assert len(got) == len(wanted), f"{case}: one of them is refused"
        for index, (first, other) in enumerate(zip(got, wanted, strict=True)):
            check_agreement(first, other, results[index].dtype, f"{case}, output {index}")


def test_nothing_takes_no_time_however_long_its_other_axes_are() -> None:
    """2^40 rows of nothing took hours: a file of 700 bytes asks for them."""
    nothing = Argument((BIG, 5, 0), plain)
    gates, weights, state = (Argument(shape, plain) for shape in ((BIG, 0, 8), (2, 8), (0, 2)))
    rows = (
        Case(REDUCE_SUM, ReduceAttrs((0, 2)), (nothing,)),
        Case(REDUCE_SUM, ReduceAttrs((0, 1, 2)), (nothing,)),
        Case(LSTM, RecurrentAttrs(False), (gates, weights, state, state)),
    )
    for case in rows:
        results = infer(case.op, case.attrs, case.specs(F32))
        for backend in (REFERENCE, BACKENDS["llvm"]):
            if not backend.refusal(Command(case.op, case.attrs), case.specs(F32), results):
                assert not any(got.any() for got in run(backend, case, F32, "contiguous", ()))
