"""Functions that are computed again for their gradient: the same values and slopes, in less memory."""

from __future__ import annotations

import gc
import weakref
from functools import cache
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.dynamic.graph import default_graph
from nnc.dynamic.transforms.recomputation import fewest_steps, next_snapshot
from nnc.errors import ShapeError, SymbolError

X = np.linspace(-1.0, 1.0, 4)


def layer(x: Any, w: Any) -> Any:
    return ops.tanh(x * w["scale"] + w["shift"])


WEIGHTS = {"scale": np.float64(0.9), "shift": np.array([0.1, 0.2, -0.1, 0.0])}


def slopes_of(function: Any, *arguments: Any) -> list[np.ndarray]:
    found = nnc.grad(lambda x, w: function(x, w).sum(), (0, 1))(*arguments)
    return [found[0].numpy(), found[1]["scale"].numpy(), found[1]["shift"].numpy()]


def test_a_checkpoint_gives_the_gradient_of_the_function() -> None:
    for got, want in zip(slopes_of(nnc.checkpoint(layer), X, WEIGHTS), slopes_of(layer, X, WEIGHTS), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_checkpoint_keeps_its_arguments_alone() -> None:
    x = nnc.variable(X)
    gc.collect()
    before, alive = len(default_graph().record.execs), len(default_graph().alive())
    y = nnc.checkpoint(lambda x: ops.exp(ops.sin(ops.exp(x))))(x)
    assert len(default_graph().record.execs) == before + 1
    assert y.key is not None
    # The counter of its draws, and y.
    assert len(default_graph().alive()) == alive + 2


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_of_any_order_go_through_a_checkpoint(order: int) -> None:
    plain: Any = lambda x: (ops.sin(x) * x**3).sum()  # noqa: E731  # a function of one line
    kept: Any = nnc.checkpoint(plain)
    for _ in range(order):
        plain, kept = ((lambda f: lambda x: nnc.grad(f)(x).sum())(one) for one in (plain, kept))
    np.testing.assert_allclose(kept(X), plain(X), rtol=1e-10)


def test_what_is_computed_again_draws_what_it_drew() -> None:
    masked = nnc.checkpoint(lambda x: nnc.dropout(x, 0.5) * nnc.compile(lambda x: nnc.dropout(x, 0.5))(x))
    x = nnc.variable(np.ones(64))
    y = masked(x)
    (slope,) = default_graph().backward([y.sum()], [x])
    np.testing.assert_array_equal(slope, 2 * y.numpy())
    assert (masked(x) != y).numpy().any()


def test_a_checkpoint_goes_along_with_compile_and_vmap() -> None:
    kept = nnc.checkpoint(lambda x: ops.tanh(x).sum())
    want = 1 - np.tanh(X) ** 2
    for function in (nnc.compile(nnc.grad(kept)), nnc.grad(nnc.compile(kept)), nnc.grad(nnc.checkpoint(kept))):
        np.testing.assert_allclose(function(X), want, rtol=1e-6)
    each = nnc.vmap(nnc.grad(kept))(np.stack([X, X]))
    np.testing.assert_allclose(each, [want, want], rtol=1e-6)


@pytest.mark.parametrize(
    "make", [nnc.checkpoint, lambda f: lambda x: nnc.iterate(f, x, 3)], ids=["checkpoint", "iterate"]
)
def test_a_variable_that_is_no_argument_is_an_error(make: Any) -> None:
    w = nnc.variable(X)
    with pytest.raises(SymbolError, match="no argument"):
        nnc.grad(lambda x: make(lambda x: x * w)(x).sum())(X)


@cache
def best(count: int, snapshots: int) -> int:
    """t(n, s) by trying every place of the next snapshot."""
    if count <= 1:
        return 0
    if snapshots == 1:
        return count * (count - 1) // 2
    return min(m + best(m, snapshots) + best(count - m, snapshots - 1) for m in range(1, count))


def test_the_schedule_is_the_best_there_is() -> None:
    for count in range(1, 60):
        for snapshots in range(1, 8):
            assert fewest_steps(count, snapshots) == best(count, snapshots)
            if count > 1:
                m = next_snapshot(count, snapshots)
                rest = best(count - m, snapshots - 1) if snapshots > 1 else 0
                assert m + best(m, snapshots) + rest == best(count, snapshots)


class Chain:
    """A step that counts how often it is made, and how many of its states are alive."""

    def __init__(self) -> None:
        self.steps = 0
        self.most = 0
        self.states: weakref.WeakSet[Any] = weakref.WeakSet()

    def step(self, x: Any, w: Any) -> Any:
        self.steps += 1
        y = layer(x, w)
        self.states.add(y.tensor)
        self.most = max(self.most, len(self.states))
        return y


@pytest.mark.parametrize(("count", "snapshots", "slots"), [(60, 4, 4), (60, "log", 6), (60, "sqrt", 8), (30, 1, 1)])
def test_a_chain_makes_the_steps_of_the_formula(count: int, snapshots: Any, slots: int) -> None:
    chain = Chain()
    got = slopes_of(lambda x, w: nnc.iterate(chain.step, x, count, w, snapshots=snapshots), X, WEIGHTS)
    # Forward once, each step once more with its gradient, and those of the schedule.
    assert chain.steps == 2 * count + fewest_steps(count, slots)
    # The snapshots but the first state, one state on its way, one with its gradient.
    assert chain.most <= slots + 3

    def plain(x: Any, w: Any) -> Any:
        for _ in range(count):
            x = layer(x, w)
        return x

    for one, want in zip(got, slopes_of(plain, X, WEIGHTS), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-10, atol=1e-14)


def test_a_thousand_steps_keep_ten_states() -> None:
    chain = Chain()
    slope = nnc.grad(lambda x: nnc.iterate(chain.step, x, 1000, WEIGHTS, snapshots="log").sum())(X)
    assert chain.steps == 2000 + fewest_steps(1000, 10) == 5636
    assert chain.most <= 13
    assert slope.shape == X.shape


def test_second_derivatives_go_through_a_chain() -> None:
    def curved(function: Any) -> Any:
        return nnc.grad(lambda x: (nnc.grad(lambda x: function(x).sum())(x) ** 2).sum())(X)

    got = curved(lambda x: nnc.iterate(layer, x, 5, WEIGHTS))
    want = curved(lambda x: nnc.compile(lambda x: nnc.iterate(layer, x, 5, WEIGHTS))(x))
    np.testing.assert_allclose(got, want, rtol=1e-10)


def test_a_chain_draws_in_its_gradient_what_it_drew() -> None:
    x = nnc.variable(np.ones(64))
    y = nnc.iterate(lambda x: nnc.dropout(x, 0.1), x, 6, snapshots=2)
    (slope,) = default_graph().backward([y.sum()], [x])
    np.testing.assert_allclose(slope, y.numpy())


@pytest.mark.parametrize(
    "make", [nnc.checkpoint, lambda f: lambda x: nnc.iterate(f, x, 4)], ids=["checkpoint", "chain"]
)
def test_nothing_stays_of_what_has_a_gradient(make: Any) -> None:
    gc.collect()
    before = len(default_graph().record.tensors)
    x = nnc.variable(X)
    y = make(lambda x: ops.sin(x))(x)
    default_graph().backward([y.sum()], [x])
    del x, y
    assert len(default_graph().record.tensors) == before


def test_a_chain_carries_whole_numbers_and_containers() -> None:
    def step(state: Any, rate: Any) -> Any:
        return {"x": state["x"] * rate, "turns": state["turns"] + 1}

    slope, last = nnc.grad(
        lambda x: (lambda last: (last["x"].sum(), last))(nnc.iterate(step, {"x": x, "turns": np.int64(0)}, 7, 0.5)),
        has_aux=True,
    )(X)
    assert last["turns"].item() == 7
    np.testing.assert_allclose(slope, 0.5**7)
    with pytest.raises(ShapeError, match="like the one before"):
        nnc.grad(lambda x: nnc.iterate(lambda x: x.sum(), x, 3))(X)
    assert nnc.iterate(step, {"x": X, "turns": 3}, 0, 0.5)["turns"] == 3
