"""Operators that are functions."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc

import numpy as np
import pytest
from tests.ops.eager import Eager

import nnc
from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.exact import exact_text
from nnc.errors import ArgumentError, UsageError
from nnc.graph import Registry
from nnc.ops.elementwise.rows import unary
from nnc.ops.function import FunctionOperator
from nnc.ops.operators import OPERATORS
from nnc.ops.rules import NoAttrs

X = Eager(np.array([0.5, -2.0, 3.0]))
ROWS = [op for op in OPERATORS if isinstance(op, FunctionOperator)]
PUBLIC = [row for row in vars(ops).values() if isinstance(row, FunctionOperator)]


def test_the_row_is_the_operator_of_the_command_that_it_makes() -> None:
    y = ops.exp(X)
    assert y.record is not None
    assert y.record.command == Command(ops.exp, NoAttrs())
    np.testing.assert_array_equal(y.array, np.exp(X.array))


@pytest.mark.parametrize("row", PUBLIC, ids=lambda row: str(row.name))
def test_a_row_is_found_by_its_name_in_nnc_ops(row: FunctionOperator) -> None:
    assert getattr(ops, row.__name__) is row
    assert (row.__module__, row.__qualname__) == ("nnc.ops", row.__name__)
    assert exact_text(row) == f"nnc.ops.{row.__name__}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.name))
def test_copies_and_pickles_are_the_same_row(row: FunctionOperator) -> None:
    assert copy.copy(row) is copy.deepcopy(row) is pickle.loads(pickle.dumps(row)) is row


def test_most_operators_without_attributes_are_functions() -> None:
    assert set(PUBLIC) < set(ROWS)
    assert len(PUBLIC) > 70
    assert {"exp", "add", "maximum", "shift_left", "softmax", "copy"} <= {row.name for row in ROWS}


def test_help_shows_signature_and_formula() -> None:
    shown = pydoc.render_doc(ops.exp, renderer=pydoc.plaintext)
    assert "exp(x: T) -> T" in shown
    assert "y = e^x." in shown


def test_the_signature_is_that_of_the_call() -> None:
    for row, names in ((ops.exp, ["x"]), (ops.add, ["a", "b"]), (ops.maximum, ["a", "b"])):
        signature = inspect.signature(row)
        assert list(signature.parameters) == names
        assert list(inspect.signature(row.__call__).parameters) == names
    np.testing.assert_array_equal(ops.add(a=X, b=X).array, 2 * X.array)


def test_one_operand_of_two_may_be_a_number_where_the_row_says_so() -> None:
    np.testing.assert_array_equal(ops.maximum(X, 1).array, np.maximum(X.array, 1))
    np.testing.assert_array_equal(ops.minimum(1.0, X).array, np.minimum(X.array, 1))
    whole = Eager(np.array([5, 9, -3]))
    np.testing.assert_array_equal(ops.floor_divide(whole, np.int64(2)).array, [2, 4, -2])
    with pytest.raises(UsageError, match="maximum: got a float; need a symbol or a variable"):
        ops.maximum(1.0, 2.0)


def test_what_is_no_operand_is_named_after_the_row() -> None:
    with pytest.raises(UsageError, match="exp: got a ndarray; need a symbol or a variable"):
        ops.exp(X.array)  # type: ignore[type-var]
    with pytest.raises(ArgumentError, match="shift_left: got b='one'; need"):
        ops.shift_left(nnc.variable([1, 2]), "one")  # type: ignore[arg-type]


def test_a_composed_function_names_itself_and_not_the_row_inside() -> None:
    with pytest.raises(ArgumentError, match=r"^clamp: got low='one'"):
        ops.clamp(nnc.variable([1.0]), "one")  # type: ignore[arg-type]


def test_a_row_of_another_registry_keeps_its_own_name() -> None:
    cubed = unary("cubed", "y = x³", lambda x: x**3, lambda g, x, y: g * x * x * 3, registry=Registry("of this test"))
    assert (cubed.__name__, cubed.__module__) == ("cubed", "nnc.ops.function")
    assert str(inspect.getdoc(cubed)).endswith("y = x³.")
    assert copy.deepcopy(cubed) is cubed


def test_what_a_row_says_in_numpy_is_what_the_reference_backend_computes() -> None:
    doubled = unary("doubled", "y = 2x", lambda x: x + x, lambda g, x, y: g * 2.0, registry=Registry("of two"))
    x = nnc.variable([1.5, -2.0])
    np.testing.assert_array_equal(doubled(x), [3.0, -4.0])
    np.testing.assert_array_equal(nnc.grad(lambda x: doubled(x).sum())(x), [2.0, 2.0])
