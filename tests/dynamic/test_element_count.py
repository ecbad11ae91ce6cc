"""`x.size` is a number, and answers calls as a method does."""

from __future__ import annotations

import pickle

import pytest

import nnc
from nnc.errors import ArgumentError


def test_a_number_that_is_called_says_the_shape() -> None:
    x = nnc.zeros((2, 3))
    assert x.size == 6
    assert isinstance(x.size, int)
    assert (x.size(0), x.size(dim=-1), x.size()) == (2, 3, (2, 3))
    assert pickle.loads(pickle.dumps(x.size))() == (2, 3)
    with pytest.raises(IndexError, match=r"size: got axis 2 of 2; need one of -2\.\.1"):
        x.size(2)
    with pytest.raises(ArgumentError):
        x.size("rows")  # type: ignore[call-overload]


def test_traced_values_answer_too() -> None:
    assert nnc.compile(lambda x: x.sum() / x.size(0) / x.size)(nnc.ones((2, 3))).item() == 0.5
