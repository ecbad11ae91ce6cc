from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.core.command import Command
from nnc.core.dtype import BF16, F16, F32, F64, DType
from nnc.core.spec import spec
from nnc.core.tensor import Tensor
from nnc.ops.optimizer import ADAM, SGD, AdamAttrs, SgdAttrs
from nnc.symbolic import SymbolicGraph, compile, minimize, verify
from nnc.symbolic.minimize import steering_dtype


@pytest.mark.parametrize(
    ("command", "states", "scalars"),
    [
        (Command(SGD, SgdAttrs(0.9)), ["w.momentum"], ["rate"]),
        (Command(ADAM, AdamAttrs()), ["w.moment", "w.variance"], ["rate", "step"]),
    ],
    ids=["sgd", "adam"],
)
def test_each_parameter_gets_an_update_with_named_states(command, states: list[str], scalars: list[str]) -> None:
    graph = SymbolicGraph()
    x, w, b = (graph.input(spec(shape), name) for shape, name in (((4, 3), "x"), ((3, 2), "w"), ((2,), "b")))
    loss = ops.reduce_mean(ops.square(ops.gemm(x, w, b)))
    done = minimize(graph, command, [loss], [w, b])
    verify(graph)
    assert [update.parameter for update in done.updates] == [w, b]
    assert [state.name for state in done.updates[0].states] == states
    assert list(done.scalars) == scalars
    assert [symbol.shape for symbol in done.scalars.values()] == [()] * len(scalars)
    update = done.updates[1]
    assert update.updated.spec == update.gradient.spec == b.spec
    carries = done.carries()
    assert carries[update.updated] == b
    assert len(carries) == 2 * (1 + len(states))
    assert all(new.spec == old.spec for new, old in carries.items())


@pytest.mark.parametrize(("dtype", "wanted"), [(F64, F64), (F32, F32), (F16, F32), (BF16, F32)])
def test_scalars_are_wide_enough_to_count_steps(dtype: DType, wanted: DType) -> None:
    assert steering_dtype(dtype) is wanted
    graph = SymbolicGraph()
    w = graph.input(spec((3,), dtype), "w")
    done = minimize(graph, Command(ADAM, AdamAttrs()), [ops.reduce_sum(w * w)], [w])
    assert {symbol.spec.dtype for symbol in done.scalars.values()} == {wanted}


def test_least_squares_are_found() -> None:
    """Case 38 of the reference: 10 w₀ + w₁ → -1, 3 w₀ + 5 w₁ → -1."""
    graph = SymbolicGraph()
    a, target = graph.input(spec((2, 2), F64), "a"), graph.input(spec((2, 1), F64), "target")
    w = graph.input(spec((2, 1), F64), "w")
    loss = ops.reduce_sum(ops.square(a @ w - target))
    done = minimize(graph, Command(SGD, SgdAttrs()), [loss], [w])
    weights = Tensor.from_numpy(np.ones((2, 1)))
    given = {
        w: weights,
        a: Tensor.from_numpy(np.array([[10.0, 1.0], [3.0, 5.0]])),
        target: Tensor.from_numpy(np.array([[-1.0], [-1.0]])),
        done.scalars["rate"]: Tensor.from_numpy(np.array(0.004)),
        done.updates[0].states[0]: Tensor.zeros(w.spec),
    }
    step = compile(graph, [loss], given=given, carry=done.carries(), backend="reference")
    losses = [float(step({}, loss)[0]) for _ in range(500)]
    np.testing.assert_allclose(np.array([[10, 1], [3, 5]]) @ weights.numpy(), [[-1.0], [-1.0]], atol=1e-3)
    assert losses[-1] < 1e-6 < losses[0]
