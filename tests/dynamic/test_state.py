"""Variables that keep their identity while their values change, eagerly and in compiled functions."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc.dynamic.state import assign, constant_of, current, depends_on
from nnc.errors import ShapeError, UsageError


def test_a_compiled_function_sees_and_writes_the_value_of_each_call() -> None:
    total = nnc.tensor(np.zeros(2, np.float32))

    @nnc.compile
    def add(x: np.ndarray) -> nnc.Variable:
        assign(total, current(total) + x)
        return current(total) * 10.0

    outputs = [add(np.ones(2, np.float32)).numpy()[0] for _ in range(3)]
    assert (outputs, total.numpy().tolist(), add.recorded) == ([10.0, 20.0, 30.0], [3.0, 3.0], 1)
    total.become(nnc.tensor(np.full(2, 7.0, np.float32)))
    assert add(np.ones(2, np.float32)).numpy()[0] == 80.0


def test_gradients_flow_to_variables_that_a_compiled_function_uses() -> None:
    w = nnc.variable([2.0, 3.0])
    product = nnc.compile(lambda x: (current(w) * x).sum())
    product(np.array([4.0, 5.0], np.float32)).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [4.0, 5.0])


def test_another_mode_is_another_program() -> None:
    mode = {"double": False}

    @nnc.compile
    def function(x: np.ndarray) -> nnc.Variable:
        depends_on(mode, lambda: mode["double"])
        return x * (2.0 if mode["double"] else 1.0)

    x = np.ones(2, np.float32)
    for double in (False, True, False, True):
        mode["double"] = double
        assert function(x).numpy()[0] == 1.0 + double
    assert function.recorded == 2


def test_backward_is_of_scalars_and_reaches_leaves_alone() -> None:
    w, constant = nnc.variable([1.0, 2.0]), nnc.tensor([3.0, 4.0])
    y = w * constant
    with pytest.raises(ShapeError, match="a scalar"):
        y.backward()
    (y * constant_of(y)).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), (w * constant * constant).numpy())
    assert (y.grad, constant.grad) == (None, None)


def test_values_of_another_shape_or_of_loops_are_refused() -> None:
    w = nnc.variable([1.0, 2.0])
    with pytest.raises(UsageError, match=r"got f32\[3\]; need f32\[2\]"):
        assign(w, nnc.tensor([1.0, 2.0, 3.0]))

    @nnc.compile
    def looped(x: np.ndarray) -> nnc.Variable:
        def body(carry: nnc.Variable, _: nnc.Variable) -> tuple[nnc.Variable, nnc.Variable]:
            assign(w, carry)
            return carry, carry

        return nnc.scan(body, x, np.zeros((3, 2), np.float32))[0]

    with pytest.raises(UsageError, match="carry it, and assign it behind"):
        looped(np.ones(2, np.float32))
