from __future__ import annotations

import math

import numpy as np
import pytest
from tests.symbolic.evaluation import values_of

from nnc import ops
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BF16, F16, F32, F64, DType
from nnc.core.values.spec import spec
from nnc.errors import AttributeValueError
from nnc.ops.movement.copy import contiguous
from nnc.ops.operators import OPERATORS
from nnc.ops.optimizer.optimizer import ADAM, MUON, SGD, AdamAttrs, SGDAttrs
from nnc.ops.optimizer.update import UpdateOperator, row_of
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Minimized, Symbol, SymbolicGraph, minimize, verify
from nnc.symbolic.minimization import steering_dtype


@pytest.mark.parametrize(
    ("command", "states", "scalars"),
    [
        (Command(SGD, SGDAttrs(0.9)), ["w.momentum"], ["rate"]),
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


# ---- every optimizer

EVERY = tuple(Command(op, op.attributes()) for op in OPERATORS if isinstance(op, UpdateOperator))


def quadratic(graph: SymbolicGraph, size: int = 3) -> tuple[list[Symbol], Symbol]:
    """Two parameters and Σ (w - 1)² + Σ exp(v)."""
    w, v = (graph.input(spec((size,), F64), name) for name in "wv")
    return [w, v], ops.reduce_sum(ops.square(w - 1.0)) + ops.reduce_sum(ops.exp(v))


def stepped(
    graph: SymbolicGraph, done: Minimized, values: dict[Symbol, np.ndarray], outputs: list[Symbol]
) -> list[np.ndarray]:
    """The outputs, with zeros for all states."""
    states = {state: np.zeros(state.shape) for update in done.updates for state in update.states}
    return values_of(graph, outputs, {**values, **states})


# Muon takes matrices alone (tests/ops/optimizer/test_optimizer.py).
OF_VECTORS = [command for command in EVERY if command.op is not MUON]


@pytest.mark.parametrize("command", OF_VECTORS, ids=lambda command: command.op.name)
def test_every_optimizer_updates_as_its_command_alone_does(command: AnyCommand) -> None:
    graph = SymbolicGraph()
    parameters, loss = quadratic(graph)
    done = minimize(graph, command, [loss], parameters)
    verify(graph)
    values = {parameters[0]: np.array([0.5, 2.0, -1.0]), parameters[1]: np.array([0.1, 0.2, 0.3])}
    steering = {symbol: np.array({"rate": 0.1, "step": 1.0}[name]) for name, symbol in done.scalars.items()}
    found = stepped(graph, done, values | steering, [update.updated for update in done.updates])
    for parameter, slope, new in zip(parameters, (lambda w: 2 * (w - 1), np.exp), found, strict=True):
        other = SymbolicGraph()
        inputs = [slope(values[parameter]), values[parameter]]
        inputs += [np.zeros(one.shape) for one in row_of(command).state_specs(parameter.spec)] + list(steering.values())
        symbols = [other.input(spec(array.shape, F64)) for array in inputs]
        (expected, *_) = other.apply(command, symbols)
        alone = values_of(other, [expected], dict(zip(symbols, inputs, strict=True)))[0]
        np.testing.assert_allclose(new, alone, rtol=1e-14)


def test_a_command_for_each_parameter() -> None:
    graph = SymbolicGraph()
    (w, v), loss = quadratic(graph)
    decaying, plain = Command(SGD, SGDAttrs(decay=0.5)), Command(ADAM, AdamAttrs())
    done = minimize(graph, {w: decaying, v: plain}, [loss], [w, v])
    verify(graph)
    assert [len(update.states) for update in done.updates] == [1, 2]
    assert list(done.scalars) == ["rate", "step"]
    values = {w: np.full(3, 2.0), v: np.zeros(3), done.scalars["rate"]: np.array(0.1)}
    values[done.scalars["step"]] = np.array(1.0)
    found = stepped(graph, done, values, [update.updated for update in done.updates])
    np.testing.assert_allclose(found[0], 2.0 - 0.1 * (2.0 + 0.5 * 2.0))
    np.testing.assert_allclose(found[1], -0.1, rtol=1e-6)
    with pytest.raises(AttributeValueError, match="no command for Symbol"):
        minimize(graph, {w: plain}, [loss], [w, v])


def test_what_is_no_optimizer_is_refused() -> None:
    graph = SymbolicGraph()
    (w, v), loss = quadratic(graph)
    for commands in (Command(contiguous, NoAttrs()), {w: EVERY[0], v: Command(contiguous, NoAttrs())}):
        with pytest.raises(
            AttributeValueError, match="copy: got no optimizer; need one of .*gradient_descent, sgd, adam"
        ):
            minimize(graph, commands, [loss], [w, v])


# ---- rates, inputs, clipping


def test_rates_are_computed_in_the_graph_and_may_differ() -> None:
    """rate = 0.1 / step for one parameter, a tenth of it for the other."""
    graph = SymbolicGraph()
    (w, v), loss = quadratic(graph)
    step = graph.input(spec((), F64), "step")
    rate = 0.1 / step
    done = minimize(graph, Command(SGD, SGDAttrs()), [loss], [w, v], scalars={"rate": rate}, rates={v: rate / 10.0})
    verify(graph)
    assert done.scalars == {"rate": rate}
    values = {w: np.zeros(3), v: np.zeros(3), step: np.array(4.0)}
    found = stepped(graph, done, values, [update.updated for update in done.updates])
    np.testing.assert_allclose(found, [[0.05] * 3, [-0.0025] * 3])


def test_gradients_of_further_inputs_come_along() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((2, 3), F64), "x"), graph.input(spec((3, 1), F64), "w")
    loss = ops.reduce_sum(ops.square(x @ w))
    done = minimize(graph, Command(SGD, SGDAttrs()), [loss], [w], inputs=[x], clip_value=1e-3)
    (slope,) = done.input_gradients
    data, weights = np.arange(6.0).reshape(2, 3), np.array([[1.0], [0.5], [-1.0]])
    values = {x: data, w: weights, done.scalars["rate"]: np.array(1.0)}
    found, step = stepped(graph, done, values, [slope, done.updates[0].gradient])
    np.testing.assert_allclose(found, 2 * (data @ weights) @ weights.T)
    np.testing.assert_allclose(step, np.clip(2 * data.T @ data @ weights, -1e-3, 1e-3))


@pytest.mark.parametrize("dtype", [F64, F32, F16], ids=str)
@pytest.mark.parametrize(("limit", "scale"), [(0.5, 0.1), (10.0, 1.0)])
def test_gradients_are_clipped_by_the_norm_of_all(dtype: DType, limit: float, scale: float) -> None:
    graph = SymbolicGraph()
    w, v = (graph.input(spec((2,), dtype), name) for name in "wv")
    loss = ops.reduce_sum(w * 3.0) + ops.reduce_sum(v * 4.0)
    done = minimize(graph, Command(SGD, SGDAttrs()), [loss], [w, v], clip_norm=limit / math.sqrt(0.5))
    verify(graph)
    assert done.norm is not None
    values = {w: np.zeros(2), v: np.zeros(2), done.scalars["rate"]: np.array(1.0)}
    norm, *clipped = stepped(graph, done, values, [done.norm, *(update.gradient for update in done.updates)])
    assert norm == pytest.approx(5.0 * math.sqrt(2.0))
    np.testing.assert_allclose(clipped, [[3.0 * scale] * 2, [4.0 * scale] * 2], rtol=1e-3)


def test_a_limit_may_be_a_tensor_and_no_gradient_stays_none() -> None:
    graph = SymbolicGraph()
    w = graph.input(spec((3,), F64), "w")
    limit = graph.input(spec((), F64), "limit")
    done = minimize(graph, Command(SGD, SGDAttrs()), [ops.reduce_sum(ops.square(w))], [w], clip_norm=limit)
    for value, expected in ((np.zeros(3), np.zeros(3)), (np.array([3.0, 0.0, 4.0]), np.array([0.6, 0.0, 0.8]))):
        values = {w: value, limit: np.array(1.0), done.scalars["rate"]: np.array(1.0)}
        np.testing.assert_allclose(stepped(graph, done, values, [done.updates[0].gradient])[0], expected)


@pytest.mark.parametrize("limits", [{"clip_norm": 0.0}, {"clip_value": -1.0}, {"clip_norm": math.nan}])
def test_limits_are_above_zero(limits: dict[str, float]) -> None:
    graph = SymbolicGraph()
    parameters, loss = quadratic(graph)
    with pytest.raises(AttributeValueError, match="need limits above 0"):
        minimize(graph, EVERY[0], [loss], parameters, **limits)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_loss_scale_is_finite_and_above_zero(scale: float) -> None:
    graph = SymbolicGraph()
    parameters, loss = quadratic(graph)
    with pytest.raises(AttributeValueError, match="need a finite scale above 0"):
        minimize(graph, EVERY[0], [loss], parameters, loss_scale=scale)
