"""Initializers fill parameters by a generator, and are JAX's by a key."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, ShapeError
from nnc.nn import initializers
from nnc.nn.layers import initializers as fills

KEY = nnc.random.key(3)
# Deviations that JAX's documents state for a weight of 300 rows and 200 columns.
DEVIATIONS = {
    "glorot_normal": math.sqrt(2 / 500), "glorot_uniform": math.sqrt(2 / 500), "he_normal": math.sqrt(2 / 300),
    "he_uniform": math.sqrt(2 / 300), "lecun_normal": math.sqrt(1 / 300), "lecun_uniform": math.sqrt(1 / 300),
}  # fmt: skip


def test_draws_by_keys_have_jaxs_deviations() -> None:
    for name, deviation in DEVIATIONS.items():
        values = getattr(initializers, name)()(KEY, (300, 200)).numpy()
        assert values.std() == pytest.approx(deviation, rel=0.02), name
        assert abs(values.mean()) < 0.02 * deviation
        assert np.abs(values).max() < 2.5 * deviation
    scaled = initializers.variance_scaling(3.0, "fan_out", "normal")(KEY, (2, 3, 50, 40)).numpy()
    assert scaled.std() == pytest.approx(math.sqrt(3 / 240), rel=0.02)
    assert initializers.normal(stddev=0.5)(KEY, (99, 99)).std().item() == pytest.approx(0.5, rel=0.05)
    uniform = initializers.uniform(scale=2.0)(KEY, (99, 99)).numpy()
    assert 0.0 <= uniform.min() < 0.01 < 1.99 < uniform.max() < 2.0
    assert np.abs(initializers.truncated_normal(0.5)(KEY, (99, 99)).numpy()).max() <= 1.0
    q = initializers.orthogonal(scale=2.0)(KEY, (5, 3)).numpy()
    np.testing.assert_allclose(q.T @ q, 4.0 * np.eye(3), atol=1e-5)


def test_a_key_gives_the_same_in_compiled_and_mapped_functions() -> None:
    draw = initializers.glorot_uniform()
    alone = draw(KEY, (2, 3))
    np.testing.assert_array_equal(nnc.jit(lambda key: draw(key, (2, 3)))(KEY).numpy(), alone.numpy())
    keys = nnc.random.split(KEY, 4)
    rows = nnc.vmap(lambda key: draw(key, (2, 3), nnc.float32))(keys)
    assert rows.shape == (4, 2, 3)
    np.testing.assert_array_equal(rows[2].numpy(), draw(keys[2], (2, 3)).numpy())
    assert initializers.zeros(KEY, (3,), "float16").dtype is nnc.f16
    assert initializers.constant(2.0)(key=KEY, shape=(2,)).tolist() == [2.0, 2.0]


def test_layers_are_filled_saved_and_pickled_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ours, raw = np.empty((4, 3), np.float32), np.empty((4, 3), np.float32)
    for door, fill in ((initializers.he_normal, fills.he_normal), (initializers.he_normal(), fills.he_normal)):
        for function, values in ((door, ours), (fill, raw)):
            function(fills.generator_for(0, "w"), values)
        np.testing.assert_array_equal(ours, raw)
    model = nn.Model(nn.Initialized(nn.Dense(2), (("*weight", initializers.orthogonal),)), (3,))
    nn.save_model("net.safetensors", model)
    assert nn.load_model("net.safetensors").layer == model.layer
    for made in (
        initializers.orthogonal,
        initializers.normal(0.5),
        initializers.variance_scaling(1.0, "fan_in", "uniform"),
    ):
        again = pickle.loads(pickle.dumps(made))
        for function, values in ((made, ours), (again, raw)):
            function(fills.generator_for(1, "w"), values)
        np.testing.assert_array_equal(ours, raw)


def test_wrong_calls_are_answered() -> None:
    with pytest.raises(ArgumentError, match=r"glorot_uniform: got a tuple; need a key.*Fix: glorot_uniform\(\)\(key"):
        initializers.glorot_uniform()((2, 3), KEY)
    with pytest.raises(ArgumentError, match="no key and shape"):
        initializers.zeros(KEY)
    with pytest.raises(ShapeError, match="two axes"):
        initializers.he_normal()(KEY, (3,))
    with pytest.raises(ArgumentError, match="scale for a layer"):
        initializers.orthogonal(scale=2.0)(fills.generator_for(0, "w"), np.empty((2, 2)))
