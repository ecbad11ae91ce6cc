"""The scale of the loss that finds itself: what it does to updates, what it leaves alone, how it is kept."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import F16
from nnc.errors import ArgumentError, AttributeValueError, NotFiniteError
from nnc.nn.optimization.loss_scale import Scaling

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((64, 4)).astype(np.float32), RANDOM.standard_normal((64, 2)).astype(np.float32)
NET = nn.Sequential(nn.Dense(8), nn.BatchNorm(), nn.Tanh(), nn.Dropout(0.1), nn.Dense(2))


def model(rule: nn.LossScale | None, **options: object) -> nn.Model:
    made = {"optimizer": nn.Adam(0.01), "precision": F16, "backend": "reference", **options}
    return nn.Model(NET, (4,), loss=nn.MeanSquaredError(), loss_scale=rule, **made)  # type: ignore[arg-type]


def same(one: nn.Model, other: nn.Model) -> bool:
    pairs = ((m.state_dict(), {name: tensor.numpy().copy() for name, tensor in m.states.items()}) for m in (one, other))
    (a, c), (b, d) = pairs
    return all(np.array_equal(a[path], b[path]) for path in a) and all(np.array_equal(c[path], d[path]) for path in c)


def test_it_halves_at_an_overflow_and_doubles_after_an_interval() -> None:
    rule = nn.LossScale(first=8.0, interval=2, least=2.0, most=16.0)
    scaling, seen = rule.start(), []
    for finite in (True, True, True, True, False, False, False, False, True):
        scaling = rule.after(scaling, finite=finite)
        seen.append((scaling.scale, scaling.passes))
    assert [scale for scale, _ in seen] == [8, 16, 16, 16, 8, 4, 2, 2, 2]
    assert seen[-1] == (2.0, 1)


def test_an_overflow_changes_no_weight_no_state_no_statistic_and_counts_no_update() -> None:
    rule = nn.LossScale(first=2.0**24)
    trained = model(rule)
    before = copy.deepcopy(trained)
    trained.train_on_batch(X, 1000 * Y)
    assert trained.scaling == Scaling(2.0**23)
    assert (trained.updates, trained.draws) == (0, 1)
    assert same(trained, before)
    while not trained.updates:
        trained.train_on_batch(X, Y)
    assert not same(trained, before)
    assert trained.scaling.scale < 2.0**24


def test_batches_that_overflow_are_left_out_of_sums_of_gradients() -> None:
    trained = model(nn.LossScale(first=2.0**24))
    trained.backward(X, 1000 * Y)
    assert not any(tensor.numpy().any() for tensor in trained.gradients.values())
    trained.scaling = Scaling(2.0**10)
    trained.backward(X, Y)
    trained.apply_gradients()
    assert trained.updates == 1


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_a_scale_that_is_a_power_of_two_changes_no_bit(backend: str) -> None:
    rule = nn.LossScale(interval=3)
    scaled, plain = (model(one, precision=None, backend=backend) for one in (rule, None))
    for _ in range(4):
        assert scaled.train_on_batch(X, Y) == plain.train_on_batch(X, Y)
    assert same(scaled, plain)
    assert scaled.scaling == Scaling(2.0**16, 1)


def test_a_resumed_training_goes_on_bit_by_bit_with_its_scale(tmp_path: Path) -> None:
    rule = nn.LossScale(first=2.0**24, interval=3)
    whole, first, second = model(rule, clip_norm=1.0), model(rule, clip_norm=1.0), model(rule, clip_norm=1.0)
    batches = nn.data.Batches(nn.data.Examples("arrays", X, 100 * Y), 16)
    whole.fit(batches, epochs=4)
    batches = nn.data.Batches(nn.data.Examples("arrays", X, 100 * Y), 16)
    first.fit(batches, epochs=2)
    nn.save_checkpoint(tmp_path / "run.safetensors", first, nn.position_of(first, batches))
    batches.restore(nn.load_checkpoint(tmp_path / "run.safetensors", second).batches)
    assert second.scaling == first.scaling != rule.start()
    second.fit(batches, epochs=2)
    assert same(second, whole)
    assert (second.scaling, second.updates) == (whole.scaling, whole.updates)


def test_what_no_scale_mends_is_an_error_and_changes_nothing() -> None:
    trained = model(nn.LossScale(first=4.0))
    before = copy.deepcopy(trained)
    bad = np.full_like(Y, 1e30)
    for _ in range(2):
        trained.train_on_batch(X, bad)
    with pytest.raises(NotFiniteError):
        trained.train_on_batch(X, bad)
    assert same(trained, before)


def test_copies_take_the_scale_along_and_shared_models_begin_anew() -> None:
    trained = model(nn.LossScale(first=2.0**24))
    trained.train_on_batch(X, 1000 * Y)
    assert copy.deepcopy(trained).scaling == trained.scaling
    assert trained.share().scaling == Scaling(2.0**24)


def test_rules_without_sense_are_refused() -> None:
    for options in ({"factor": 1.0}, {"first": 0.5}, {"least": 4.0, "most": 2.0}):
        with pytest.raises(AttributeValueError, match="least ≤ first ≤ most"):
            nn.LossScale(**options)  # type: ignore[arg-type]
    for options in ({"interval": 0}, {"first": float("inf")}, {"first": -1.0}):
        with pytest.raises(ArgumentError):
            nn.LossScale(**options)  # type: ignore[arg-type]


def test_all_ways_of_training_work_together() -> None:
    adapted = nn.LoRA(nn.Sequential(nn.Recomputed(nn.Dense(8)), nn.Tanh(), head=nn.Dense(2)), ("*",), rank=2)
    optimizer = nn.PerParameter(nn.AdamW(0.01), (("head.*", nn.SGD(0.1)), ("0.lora_a", None)))
    trained = nn.Model(
        adapted,
        (4,),
        loss=nn.MeanSquaredError(),
        optimizer=optimizer,
        precision=F16,
        loss_scale=nn.LossScale(),
        clip_norm=1.0,
        clip_value=0.5,
        nan_guard=True,
    )
    before, mean = trained.state_dict(), copy.deepcopy(trained)
    history = trained.fit(X, X[:, :2], epochs=6, batch_size=16, accumulate=2)
    assert history["loss"][-1] < history["loss"][0]
    changed = {path for path, array in trained.state_dict().items() if not np.array_equal(array, before[path])}
    assert changed == {"0.lora_b", "head.lora_a", "head.lora_b"}
    mean.zip_map(lambda old, new: 0.5 * old + 0.5 * new, trained)
    np.testing.assert_allclose(
        mean.state_dict()["head.lora_b"], trained.state_dict()["head.lora_b"] / 2, rtol=1e-6, atol=1e-9
    )
