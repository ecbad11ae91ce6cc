"""The five ways to train give the same losses where they do the same work."""

from __future__ import annotations

import numpy as np
import pytest

from examples import with_commands, with_functions, with_models, with_symbols, with_variables
from nnc import nn
from nnc.core.values.dtype import F32, TOLERANCE
from nnc.nn.data import Batches, load


@pytest.fixture(scope="module")
def by_models() -> list[float]:
    return with_models.train(epochs=2)


@pytest.mark.parametrize("way", [with_variables, with_functions, with_symbols], ids=["eager", "compiled", "symbols"])
def test_variables_functions_and_symbols_follow_the_model(way, by_models: list[float]) -> None:
    losses = way.train(epochs=2)
    assert len(losses) == 46
    # Tolerance of one f32 step, widened by what 46 updates of momentum may amplify.
    np.testing.assert_allclose(losses, by_models, rtol=20 * TOLERANCE[F32].relative)
    assert losses[-1] < 0.5 * losses[0]


def test_commands_follow_a_model_of_one_dense_layer() -> None:
    layer = nn.Sequential(flatten=nn.Flatten(), dense=nn.Dense(10))
    model = nn.Model(layer, (8, 8, 1), optimizer=nn.SGD(0.5, momentum=0.0), seed=0)
    batches = Batches(load("digits").train, 64, seed=0, drop_last=True)
    expected = [model.train_on_batch(batch.inputs, batch.labels)[0] for _ in range(2) for batch in batches]
    losses = with_commands.train(epochs=2)
    np.testing.assert_allclose(losses, expected, rtol=20 * TOLERANCE[F32].relative)
    assert losses[-1] < 0.5 * losses[0]
