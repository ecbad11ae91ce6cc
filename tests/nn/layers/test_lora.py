"""Low-rank adaptation: what is trained, what stays, and how it is merged and kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, FormatError, UsageError

RANDOM = np.random.default_rng(0)
X, LABELS = RANDOM.standard_normal((12, 5, 8)).astype(np.float32), RANDOM.integers(0, 3, 12)
NET = nn.Sequential(block=nn.TransformerBlock(2), norm=nn.BatchNorm(), mean=nn.GlobalAveragePool(), head=nn.Dense(3))
ADAPTED = nn.LoRA(NET, ("*.query", "*.value", "head"), rank=2)


def model(layer: nn.Layer = ADAPTED, seed: int = 0) -> nn.Model:
    return nn.Model(layer, (5, 8), seed=seed, backend="reference", optimizer=nn.Adam(0.05))


def test_adapters_begin_as_nothing_and_are_all_that_is_trained() -> None:
    adapted, plain = model(), model(NET)
    assert {path.rpartition(".")[2] for path in adapted.parameters} == {"lora_a", "lora_b"}
    assert len(adapted.parameters) == 6
    np.testing.assert_array_equal(adapted.predict(X), plain.predict(X))
    before = adapted.state_dict()
    losses = [adapted.train_on_batch(X, LABELS)[0] for _ in range(10)]
    assert losses[-1] < losses[0]
    changed = {path for path, array in adapted.state_dict().items() if not np.array_equal(array, before[path])}
    assert changed == {*adapted.parameters, "norm.running_mean", "norm.running_variance"}


def test_the_optimizer_has_state_of_adapters_alone() -> None:
    assert {name.rpartition(".")[0] for name in model().states} == set(model().parameters)


def test_merged_weights_give_what_adapters_give() -> None:
    adapted, plain = model(), model(NET)
    for _ in range(3):
        adapted.train_on_batch(X, LABELS)
    plain.load_state_dict(ADAPTED.merged(adapted.state_dict()))
    np.testing.assert_allclose(plain.predict(X), adapted.predict(X), rtol=1e-4, atol=1e-5)


def test_adapters_are_saved_alone_and_found_again(tmp_path: Path) -> None:
    adapted = model()
    adapted.train_on_batch(X, LABELS)
    nnc.save(tmp_path / "adapters.safetensors", ADAPTED.adapters(adapted.state_dict()))
    other = model(seed=1)
    base = {path: array for path, array in adapted.state_dict().items() if path not in adapted.parameters}
    other.load_state_dict(base, strict=False)
    nnc.load(tmp_path / "adapters.safetensors", other, strict=False)
    np.testing.assert_array_equal(other.predict(X), adapted.predict(X))


def test_an_adapted_layer_may_be_computed_again_and_adapted_once_more() -> None:
    layer = nn.LoRA(nn.Recomputed(nn.LoRA(NET, ("head",), rank=1)), ("*.widen",), rank=1)
    assert set(model(layer).parameters) == {
        "block.feed_forward.widen.lora_a",
        "block.feed_forward.widen.lora_b",
    }


def test_patterns_are_seen_from_the_layer_that_is_adapted() -> None:
    outer = nn.Sequential(body=nn.LoRA(NET, ("head",), rank=1))
    assert set(model(outer).parameters) == {"body.head.lora_a", "body.head.lora_b"}


@pytest.mark.parametrize(
    ("patterns", "told"),
    [(("*.queries",), r"pattern '\*.queries'; need one that fits a dense layer: block"), ((), "no patterns")],
)
def test_patterns_that_fit_nothing_are_told(patterns: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        model(nn.LoRA(NET, patterns))


def test_values_without_sense_are_refused() -> None:
    for options in ({"rank": 0}, {"alpha": 0.0}, {"alpha": float("nan")}):
        with pytest.raises(ArgumentError):
            nn.LoRA(NET, ("head",), **options)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=r"head.lora_a alone; need head.lora_b"):
        ADAPTED.merged({"head.lora_a": np.zeros((8, 2))})


def test_an_adapter_within_an_adapter_of_one_layer_is_refused() -> None:
    with pytest.raises(UsageError, match=r"an adapter within an adapter of head"):
        model(nn.LoRA(nn.LoRA(NET, ("head",)), ("head",)))
    paths = model(nn.LoRA(nn.LoRA(NET, ("*.query",)), ("head",))).parameters
    assert {path.partition(".")[0] for path in paths} == {"head"}
