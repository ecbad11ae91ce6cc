from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from nnc.core.values.exact import Exact, are_the_same, exact_text
from nnc.core.values.spec import Layout


@dataclass(frozen=True)
class Pair:
    left: object
    right: object = ()


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (1.0, 1), (1, True), (1.0, 2.0), ((1,), (1, 1)), ((0.0,), (-0.0,)), ("a", "b")]
)
def test_values_that_can_be_told_apart(one: object, other: object) -> None:
    assert not are_the_same(one, other)
    assert not are_the_same(Pair(one), Pair(other))
    assert Exact(Pair(1, (one, 2))) != Exact(Pair(1, (other, 2)))


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, 3, True, "a", (1, (2.0, None)), Pair(1.5, (0.0,))])
def test_equal_values_are_one_key(value: object) -> None:
    table = {Exact(value): "first"}
    table[Exact(value)] = "second"
    assert table == {Exact(value): "second"}


def test_not_a_number_is_itself() -> None:
    assert are_the_same(Pair(math.nan), Pair(float("nan")))


def test_a_key_is_no_value() -> None:
    assert Exact(1) != 1


def test_texts_tell_apart_what_a_kernel_could() -> None:
    values: list[object] = [
        0.0,
        -0.0,
        0,
        False,
        None,
        "",
        b"",
        (),
        ((),),
        ("", ""),
        ("','",),
        math.inf,
        math.nan,
        are_the_same,
    ]
    values += [*Layout, Exact(1), Exact(1.0), Exact((Layout.NHWC, None))]
    texts = [exact_text(value) for value in values]
    assert len(set(texts)) == len(values)
    assert all(texts)
    assert exact_text(Exact((1, "a"))) == exact_text(Exact((1, "a")))


@pytest.mark.parametrize("value", [object(), [1], {1: 2}, Pair(1), lambda: 1, (1, (object(),))])
def test_what_nobody_can_name_has_no_text(value: object) -> None:
    assert exact_text(value) == ""
