from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np
import pytest
from numpy.typing import ArrayLike

from nnc.arguments import Count, Finite, Positive, Probability, Rate, Seed, Share, Size, checked, explained, rule_of
from nnc.errors import ArgumentError

T = TypeVar("T", bound=BaseException)

FITS: tuple[tuple[object, object], ...] = (
    (Count, 1), (Count, np.int64(3)), (Count, 2**63 - 1), (Seed, 2**80), (Size, 0), (Rate, 0), (Share, 0.0),
    (Rate, np.float32(0.5)),
    (Probability, 1.0), (Positive, 1e-300), (Finite, -1e30), (bool, np.True_), (str, ""), (int | None, None),
    (tuple[int, ...], ()), (tuple[int, str], (1, "a")), (Sequence[int], [1, 2]), (Sequence[int], np.arange(3)),
    (Iterable[int], iter([1])), (Mapping[str, int], {"a": 1}), (Callable[[], int], len), (Literal["same"], "same"),
    (ArrayLike, object()), (object, None), (T, ValueError()), (type, int),
)  # fmt: skip
DOES_NOT: tuple[tuple[object, object, str], ...] = (
    (Count, 0, "an integer ≥ 1"),
    (Count, 2**63, "an integer ≥ 1 and < 2^63"),
    (Size, 10**400, "an integer ≥ 0 and < 2^63"),
    (Seed, -1, "an integer ≥ 0"),
    (Count, True, "an integer"),
    (Count, 3.0, "an integer"),
    (Count, "3", "an integer"),
    (Count, int, "an integer"),
    (Count, (3, 1), "an integer"),
    (Size, -1, "an integer ≥ 0"),
    (Rate, -0.1, "a number ≥ 0"),
    (Rate, float("nan"), "a number ≥ 0"),
    (Rate, float("inf"), "a number ≥ 0"),
    (Rate, np.ones(3), "a number"),
    (Share, 1.0, "a number ≥ 0 and < 1"),
    (Positive, 0.0, "a number > 0"),
    (Finite, float("inf"), "a finite number"),
    (bool, 1, "True or False"),
    (str, b"a", "a text"),
    (int | None, "a", "an integer or None"),
    (tuple[int, ...], [1], "a tuple of an integer"),
    (tuple[int, str], (1,), "a tuple"),
    (Sequence[int], [1, "a"], "several of an integer"),
    (Sequence[int], "12", "several of an integer"),
    (Sequence[int], iter([1]), "several of an integer"),
    (Iterable[int], 3, "several of an integer"),
    (Mapping[str, int], {"a": "b"}, "a mapping"),
    (Callable[[], int], 3, "something to call"),
    (Literal["same"], "sames", "'same'"),
    (T, 3, "BaseException"),
)


@pytest.mark.parametrize(("annotation", "value"), FITS)
def test_what_an_annotation_allows(annotation: object, value: object) -> None:
    assert rule_of(annotation).test(value)


@pytest.mark.parametrize(("annotation", "value", "need"), DOES_NOT)
def test_what_an_annotation_refuses(annotation: object, value: object, need: str) -> None:
    rule = rule_of(annotation)
    assert not rule.test(value)
    assert need in rule.need


class Animal:
    """Something with kinds."""


class Zebra(Animal):
    """A kind."""


@checked
@dataclass(frozen=True, slots=True)
class Zoo:
    """A class of fields."""

    cages: Count
    first: Animal | None = None

    def __post_init__(self) -> None:
        assert self.cages > 0, "fields are checked before they are used"


@checked
def together(*parts: int, base: int = 0, **named: int) -> int:
    return sum(parts) + base + sum(named.values())


def test_a_dataclass_is_checked_when_it_is_made_and_replaced() -> None:
    zoo = Zoo(2, Zebra())
    assert replace(zoo, cages=3).cages == 3
    with pytest.raises(
        ArgumentError, match=r"^Zoo: got cages=0; need an integer ≥ 1 and < 2\^63 \(test_arguments.py:\d+\)$"
    ):
        Zoo(0)
    with pytest.raises(ArgumentError, match="cages=-1"):
        replace(zoo, cages=-1)


@pytest.mark.parametrize(("first", "told"), [("zebra", r"first='zebra'"), (Zebra, "first=the class Zebra")])
def test_the_message_says_what_to_pass_instead(first: object, told: str) -> None:
    with pytest.raises(ArgumentError, match=told) as caught:
        Zoo(1, first)
    assert "Zebra(…)" in caught.value.fix
    assert caught.value.need == "an Animal or None"


def test_arguments_behind_stars_are_checked() -> None:
    assert together(1, 2, base=3, more=4) == 10
    for call in (lambda: together(1, "a"), lambda: together(base="a"), lambda: together(more="a")):
        with pytest.raises(ArgumentError, match="='a'; need an integer"):
            call()


def test_a_missing_argument_is_for_python_to_tell() -> None:
    with pytest.raises(TypeError, match="cages"):
        Zoo()


def test_contents_and_long_texts_are_not_printed() -> None:
    with pytest.raises(ArgumentError) as caught:
        Zoo([1, 2, 3])
    assert caught.value.got == "cages=a list"
    with pytest.raises(ArgumentError) as caught:
        Zoo("x" * 1000)
    assert len(caught.value.got) < 60


@pytest.mark.parametrize("annotation", [float, Finite, Positive, Rate], ids=str)
def test_a_number_is_one_that_a_float_holds(annotation: object) -> None:
    rule = rule_of(annotation)
    assert rule.test(10**300)
    assert rule.test(Fraction(1, 3))
    assert rule.test(np.float32(2.0))
    assert not any(map(rule.test, (10**400, Fraction(10**400), True, "1", np.ones(2))))
    with pytest.raises(
        ArgumentError, match="rate=an integer of 16610 bits, more than a float holds; need a number ≥ 0"
    ):
        checked_rate(10**5000)


@checked
def checked_rate(rate: Rate) -> float:
    return float(rate)


@explained
def half(value: int, table: Mapping[str, int] | None = None) -> float:
    return value / len(table or {"a": 1}) / 2


def test_an_explained_function_tells_the_argument_that_it_failed_for() -> None:
    assert half(3) == 1.5
    with pytest.raises(ArgumentError, match="half: got value='a'; need an integer"):
        half("a")


def test_an_explained_function_keeps_an_error_that_no_argument_explains() -> None:
    class Odd(int):
        def __truediv__(self, other: object) -> float:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half(Odd(3))


@explained
class Halves:
    @staticmethod
    def of(value: int) -> float:
        return value / 2

    @classmethod
    def named(cls, name: str) -> str:
        return cls.__name__ + name


def test_methods_of_no_instance_are_explained_too() -> None:
    assert Halves.of(3) == Halves().of(3) == 1.5
    for call, told in ((lambda: Halves.of("a"), "Halves.of: got value='a'"), (lambda: Halves.named(3), "got name=3")):  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match=told):
            call()


def test_only_what_is_written_in_python_is_explained() -> None:
    for door in (int, 3):
        with pytest.raises(ArgumentError, match="explained: got .*; need a function or class"):
            explained(door)  # type: ignore[type-var]  # what users may try
