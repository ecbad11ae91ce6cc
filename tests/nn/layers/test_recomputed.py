"""A layer that is computed again in the backward pass: the same bits in less memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnc import nn
from nnc.nn.files.checkpoint import describe

RANDOM = np.random.default_rng(0)
X, LABELS = RANDOM.standard_normal((16, 8)).astype(np.float32), RANDOM.integers(0, 3, 16)


def tower(wrap: Callable[[nn.Layer], nn.Layer], width: int = 8, blocks: int = 3) -> nn.Sequential:
    def block() -> nn.Layer:
        body = nn.Sequential(nn.Dense(width), nn.BatchNorm(), nn.GELU(), nn.Dropout(0.2), nn.Dense(width), nn.Tanh())
        return wrap(nn.Residual(body))

    return nn.Sequential(*(block() for _ in range(blocks)), head=nn.Dense(3))


@pytest.mark.turns(4)
@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_updates_statistics_and_random_numbers_are_the_same_bit_by_bit(backend: str) -> None:
    plain, again = (
        nn.Model(tower(wrap), (8,), backend=backend, nan_guard=True) for wrap in (lambda layer: layer, nn.Recomputed)
    )
    for _ in range(3):
        assert plain.train_on_batch(X, LABELS) == again.train_on_batch(X, LABELS)
    plain.backward(X, LABELS)
    again.backward(X, LABELS)
    plain.apply_gradients()
    again.apply_gradients()
    state = again.state_dict()
    for path, array in plain.state_dict().items():
        np.testing.assert_array_equal(array, state[path])
    np.testing.assert_array_equal(plain.predict(X), again.predict(X))


def test_the_arena_of_a_tower_falls() -> None:
    plain, again = (
        nn.Model(tower(wrap, 64, 8), (64,)).memory(256).step.arena for wrap in (lambda layer: layer, nn.Recomputed)
    )
    assert again < 0.5 * plain


def test_layers_of_several_inputs_and_outputs_run_again_too() -> None:
    def twins(wrap: Callable[[nn.Layer], nn.Layer]) -> nn.Model:
        a, b = nn.Input((4,)), nn.Input((4,))
        pair = wrap(nn.Lambda(lambda p, q: (p * q, p - q)))(a, b)
        outputs = [nn.Dense(2)(pair[0], name="left"), nn.Dense(2)(pair[1], name="right")]
        net = nn.Functional([a, b], outputs)
        return nn.Model(net, loss=[nn.MeanSquaredError(), nn.MeanSquaredError()], backend="reference")

    pair, target = (X[:, :4], X[:, 4:]), (np.ones((16, 2)), np.zeros((16, 2)))
    plain, again = twins(lambda layer: layer), twins(nn.Recomputed)
    for _ in range(2):
        assert plain.train_on_batch(pair, target) == again.train_on_batch(pair, target)


def test_open_sizes_stay_open_and_the_architecture_says_it() -> None:
    model = nn.Model(nn.Sequential(nn.Recomputed(nn.Dense(4)), nn.Dense(2)), (3,))
    assert model.padding() == ""
    assert "Recomputed(layer=Dense(units=4, bias=True))" in describe(model)
