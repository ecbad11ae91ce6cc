"""Sizes compute as integers do, and note what depends on them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
import pytest

from nnc.core.values.derived import Known
from nnc.core.values.sizes import (
    Renewal,
    SizeTrace,
    comparing_sizes,
    decided,
    deciding_sizes,
    depends,
    plain,
    size_of,
    sizes_in,
)
from nnc.core.values.spec import TensorSpec, broadcast_shapes


def test_a_size_is_an_integer_to_whoever_asks() -> None:
    n = SizeTrace().read(8)
    assert isinstance(n, int)
    assert not isinstance(n, float)
    assert isinstance(n / 2, float)
    assert [*range(n)] == [*range(8)]
    assert f"{n:03d}" == "008"
    assert np.zeros((n, 2)).shape == (8, 2)
    assert (n & 12, 1 << n, n**2, abs(n), round(n), n.bit_length()) == (8, 256, 64, 8, 8, 4)


@pytest.mark.parametrize(
    "text",
    [
        "n * 4 + m", "m - n", "-n // 3", "n % m", "(n + 2 * 3 - m) // 2 + 1", "math.prod((n, m, 3))", "sum((n, m))",
        "math.ceil(n / m)", "math.floor(n * 0.5)", "divmod(n, m)[1]", "divmod(100, n)[0]", "max(n, m, 5)", "min(n, 70)",
    ],
)  # fmt: skip
def test_what_is_computed_follows_other_sizes_that_meet_the_guards(text: str) -> None:
    trace, numbers = SizeTrace(), random.Random(text)
    n, m = trace.read(9), trace.read(4)
    made = eval(text, {"n": n, "m": m, "math": math})
    assert plain(made) == eval(text, {"n": 9, "m": 4, "math": math})
    formulas, met = trace.close(), 0
    for _ in range(50):
        sizes = numbers.randint(1, 40), numbers.randint(1, 40)
        if (known := formulas.at(sizes)) is not None:
            met += 1
            assert known[made.place] == eval(text, {"n": sizes[0], "m": sizes[1], "math": math})
    assert met > 0


@pytest.mark.parametrize(
    "use", [range, hash, str, repr, float, lambda n: [0] * n, lambda n: np.arange(n), lambda n: {n: 1}, lambda n: n | 1]
)
def test_who_asks_for_the_value_gets_it_for_this_size_alone(use: object) -> None:
    trace = SizeTrace()
    n = trace.read(8)
    use(n * 2)  # type: ignore[operator]
    formulas = trace.close()
    assert formulas.at((8,)) is not None
    assert formulas.at((9,)) is None


def test_both_sides_of_an_operation_without_a_formula_keep_their_values() -> None:
    trace = SizeTrace()
    assert trace.read(2) ** trace.read(3) == 8
    formulas = trace.close()
    assert formulas.at((2, 3)) is not None
    assert formulas.at((2, 4)) is None
    assert formulas.at((3, 3)) is None


def test_a_comparison_is_a_guard() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    assert n % 4 == 0
    assert n > 4
    formulas = trace.close()
    assert [size for size in range(20) if formulas.at((size,)) is not None] == [8, 12, 16]


def test_a_spec_of_sizes_is_hashed_without_a_guard() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    spec = TensorSpec((n, 3))
    assert hash(spec) == hash(TensorSpec((8, 3)))
    assert str(spec) == "f32[8, 3]"
    assert size_of(spec.shape[0]) is n
    formulas = trace.close()
    assert formulas.at((9,)) is not None


def test_broadcasting_tells_a_size_of_one_from_others() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    assert tuple(map(plain, broadcast_shapes("add", (n, 3), (1, 3)))) == (8, 3)
    formulas = trace.close()
    assert formulas.at((2,)) is not None
    assert formulas.at((1,)) is None


def test_a_table_of_sizes_compares_them_where_that_is_asked_for() -> None:
    trace = SizeTrace()
    n, m = trace.read(8), trace.read(5)
    with comparing_sizes():
        assert {n: 1}.get(m) is None
        assert {n: 1}[n] == 1
    formulas = trace.close()
    assert formulas.at((9, 7)) is not None
    assert formulas.at((9, 9)) is None


def test_after_the_trace_sizes_are_plain() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    trace.close()
    assert (n + 1, plain(n), hash(n)) == (9, 8, hash(8))
    assert size_of(n + 1) is None


@dataclass(frozen=True)
class Pair:
    first: object
    other: object


def test_a_value_has_other_numbers_in_the_place_of_its_sizes_and_what_has_none_stays() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    fixed = Pair("x", (1, 2.0, None))
    value = Pair((TensorSpec((n, 4)), [n * 2, "n"]), fixed)
    formulas = trace.close()
    numbers = formulas.at((9,))
    assert numbers is not None
    assert depends(value)
    assert not depends(fixed)
    renewed = Renewal(numbers).of(value)
    assert renewed == Pair((TensorSpec((9, 4)), [18, "n"]), fixed)
    assert renewed.other is fixed
    assert not depends(renewed)
    assert {size.value for size in sizes_in(value)} == {8, 16}


def many(size: int, table: tuple[int, ...]) -> str:
    return "many" if size * 3 > table[0] and size % 7 != 5 else "few"


def at(trace: SizeTrace, size: int) -> list[Known] | None:
    return trace.close().at((size,))


def test_a_decision_is_guarded_by_its_outcome_alone() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    with deciding_sizes():
        assert decided(many, n, (n + 2,)) == "many"
    assert len(trace.close().steps) < 6
    assert at(trace, 100) is not None
    assert at(trace, 12) is None


def test_a_number_that_is_decided_follows_the_sizes() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    with deciding_sizes():
        block = decided(pow, n, 2) + 1
    (size,) = sizes_in(block)
    numbers = at(trace, 5)
    assert numbers is not None
    assert (size.value, numbers[size.place]) == (65, 26)


@pytest.mark.parametrize("is_asked_inside", [True, False])
def test_what_is_decided_of_plain_numbers_or_outside_is_asked_as_it_is(is_asked_inside: bool) -> None:
    trace = SizeTrace()
    n = trace.read(8)
    if is_asked_inside:
        with deciding_sizes():
            assert decided(many, 8, (10,)) == "many"
        assert not trace.close().steps
    else:
        assert decided(many, n, (10,)) == "many"
        assert at(trace, 100) is not None
        assert at(trace, 12) is None


def test_an_error_of_a_decision_is_told() -> None:
    trace = SizeTrace()
    n = trace.read(8)
    with deciding_sizes(), pytest.raises(ZeroDivisionError):
        decided(divmod, n, 0)
