from __future__ import annotations

import math

import pytest

from nnc.core.values.derived import Derivation, Derived, blank, known, known_multiple, whether_at_most
from nnc.core.values.exact import Exact, exact_text


def test_what_is_computed_of_sizes_is_computed_of_others() -> None:
    derivation = Derivation()
    rows, columns = derivation.read(3), derivation.read(5)
    area, rest = derivation.place(2 * rows * columns + 1), derivation.place(-(-columns // rows) % 7)
    cost = derivation.place(0.25 * rows / columns)
    found = derivation.close().at((4, 9))
    assert found is not None
    assert (found[area], found[rest], found[cost]) == (73, 3, 0.25 * 4 / 9)


def test_a_comparison_is_a_condition() -> None:
    derivation = Derivation()
    rows = derivation.read(48)
    assert rows % 16 == 0
    assert rows > 20
    formulas = derivation.close()
    assert formulas.at((64,)) is not None
    assert formulas.at((49,)) is None
    assert formulas.at((16,)) is None


def test_an_outcome_that_is_a_number_is_no_condition() -> None:
    derivation = Derivation()
    rows, columns = derivation.read(3), derivation.read(5)
    tall = derivation.place(whether_at_most(columns, rows) * 7)
    formulas = derivation.close()
    results = [numbers[tall] for sizes in ((3, 5), (5, 5), (6, 5)) if (numbers := formulas.at(sizes))]
    assert results == [0, 7, 7]
    assert whether_at_most(2, 3) == 1


@pytest.mark.parametrize("use", [hash, int, float, str, range, lambda size: [0] * 5 if (0,) * size else []])
def test_what_asks_for_the_value_itself_makes_it_a_condition(use: object) -> None:
    derivation = Derivation()
    assert callable(use)
    use(derivation.read(3))
    formulas = derivation.close()
    assert formulas.at((3,)) is not None
    assert formulas.at((4,)) is None


def test_a_number_that_is_read_is_not_known() -> None:
    derivation = Derivation()
    size = derivation.read(32)
    assert known(32)
    assert known_multiple(32, 16)
    assert not known(size)
    assert not known_multiple(size, 16)
    assert derivation.close().at((33,)) is not None


def test_a_number_of_a_closed_derivation_is_a_plain_one() -> None:
    first, second = Derivation(), Derivation()
    kept, size = first.read(3), second.read(4)
    first.close()
    assert type(kept + 1) is int
    place = second.place(kept * size)
    found = second.close().at((10,))
    assert found is not None
    assert found[place] == 30


def test_a_reciprocal_divides() -> None:
    derivation = Derivation()
    size = derivation.read(7)
    assert isinstance(size, Derived)
    place = derivation.place(size.reciprocal)
    formulas = derivation.close()
    for divisor in (1, 2, 3, 7, 641, 65537, (1 << 31) - 1, 1 << 31):
        numbers = formulas.at((divisor,))
        assert numbers is not None
        for index in (0, 1, divisor - 1, divisor, divisor + 1, min(10 * divisor, 1 << 31) - 1, 1 << 31):
            assert index * int(numbers[place]) >> 63 == index // divisor


def test_nothing_is_divided_by_an_empty_axis() -> None:
    derivation = Derivation()
    size = derivation.read(7)
    assert isinstance(size, Derived)
    derivation.place(size.reciprocal)
    assert derivation.close().at((0,)) is not None


def test_sums_and_products_that_change_nothing_are_none() -> None:
    derivation = Derivation()
    size = derivation.read(7)
    assert size + 0 is size
    assert 1 * size is size
    assert math.prod((size,)) is size


def test_blanks_are_alike() -> None:
    assert Exact((1, blank())) == Exact((1, blank()))
    assert exact_text((1, blank())) == "(1,nnc.core.values.derived.Blank(),)"
