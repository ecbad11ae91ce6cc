"""The exception tree and the one form of its messages."""

from __future__ import annotations

import inspect

import pytest

from nnc import errors
from nnc.errors import NncError, ShapeError, UsageError, VerificationError

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass)]


def test_the_form_of_a_message() -> None:
    error = ShapeError("gemm", got="a=f32[4, 3]", need="k (3)", fix="set transpose_b=True", origin="train.py:42")
    assert str(error) == "gemm: got a=f32[4, 3]; need k (3). Fix: set transpose_b=True (train.py:42)"
    assert (error.subject, error.got, error.need) == ("gemm", "a=f32[4, 3]", "k (3)")
    assert (error.fix, error.origin) == ("set transpose_b=True", "train.py:42")


def test_parts_that_are_not_there_leave_no_mark() -> None:
    assert str(UsageError("gemm")) == "gemm"
    assert str(UsageError("gemm", need="two inputs")) == "gemm: need two inputs"
    assert str(UsageError("gemm", fix="add one")) == "gemm. Fix: add one"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_is_in_the_tree_and_in_the_diagram(kind: type[Exception]) -> None:
    assert issubclass(kind, NncError)
    assert kind is NncError or issubclass(kind, UsageError) or kind is VerificationError
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


def test_the_diagram_has_no_class_that_is_not_there() -> None:
    words = (errors.__doc__ or "").split()
    drawn = {word for word in words if word.endswith("Error") and word.isidentifier()}
    assert drawn == {kind.__name__ for kind in CLASSES}
