"""Quantized steps of a model, and what they say of each layer."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.errors import ArgumentError, DataError
from nnc.nn.data import load
from nnc.nn.zoo import digits_network


def small(**options: object) -> nn.Model:
    layer = nn.Sequential(
        conv=nn.Convolution(8), norm=nn.BatchNorm(), act=nn.ReLU(), flat=nn.Flatten(), head=nn.Dense(3)
    )
    return nn.Model(layer, (6, 6, 4), backend="reference", **options)  # type: ignore[arg-type]  # options by name


@pytest.mark.parametrize("mode", ["weights", "dynamic"])
def test_a_quantized_step_is_near_and_small_and_leaves_the_model_as_it_is(mode: str) -> None:
    model = small()
    x = np.random.default_rng(0).standard_normal((4, 6, 6, 4), dtype=np.float32)
    model.train_on_batch(x, [0, 1, 2, 0])
    before, want = {path: one.numpy().copy() for path, one in model.tensors().items()}, model.predict(x)
    step = model.freeze(4, quantize=mode)
    first = np.array(step.run(x)[0])
    assert 0 < np.abs(first - want).max() < 0.05 * np.abs(want).max()
    assert model.memory(4, f"freeze+{mode}").weights == step.compiled.memory().bound
    assert model.memory(4, f"freeze+{mode}").weights < 0.3 * model.memory(4, "freeze").weights
    for path, one in model.tensors().items():
        np.testing.assert_array_equal(one.numpy(), before[path])
    np.testing.assert_array_equal(copy.deepcopy(model).freeze(4, quantize=mode).run(x)[0], first)
    np.testing.assert_array_equal(model.freeze(4).run(x)[0], model.freeze(4).run(x)[0])
    model.train_on_batch(x, [0, 1, 2, 0])
    np.testing.assert_array_equal(step.run(x)[0], first)


def test_the_report_has_a_row_for_each_product() -> None:
    model = small()
    x = np.random.default_rng(0).standard_normal((4, 6, 6, 4), dtype=np.float32)
    for mode, least in (("weights", 40), ("dynamic", 35)):
        report = model.quantization_report(x, mode)
        assert [one.name for one in report.layers] == ["conv.weight", "head.weight"]
        assert all(one.decibels > least and not one.skipped for one in report.layers)
        assert all(one.bytes_after < 0.3 * one.bytes_before for one in report.layers)
        assert 0 < report.error < 0.03
        assert "conv.weight  convolution  4x6x6x8" in str(report)
        assert "<td>head.weight</td>" in report._repr_html_()


def test_losses_of_weights_beyond_the_squares_of_f32_are_numbers() -> None:
    model = nn.Model(nn.Dense(4, bias=False), (5,))
    x = np.random.default_rng(0).standard_normal((3, 5), dtype=np.float32)
    model.load_state_dict({"weight": model.state_dict()["weight"] * np.float32(1e37)})
    (layer,) = model.quantization_report(x).layers
    assert 30 < layer.decibels < 100


def test_rows_of_a_model_of_open_sizes_are_reported_as_long_as_they_are() -> None:
    model = nn.Model(nn.Sequential(nn.Embedding(9, 8), nn.Dense(5)), (nn.UpTo(12),), input_dtype=I32)
    tokens = np.arange(10).reshape(2, 5) % 9
    report = model.quantization_report(tokens)
    assert [one.output for one in report.layers] == [(2, 5, 5)]
    assert 0 < report.error < 0.03
    assert model.freeze(2, 5).run(tokens)[0].tobytes() == model.predict(tokens).tobytes()


def test_a_model_without_products_has_an_empty_report() -> None:
    model = nn.Model(nn.Sequential(nn.ReLU(), nn.Flatten()), (2, 2), backend="reference")
    report = model.quantization_report(np.ones((1, 2, 2), np.float32))
    assert (report.layers, report.error) == ((), 0.0)
    assert "0 -> 0 bytes" in str(report)


def test_wrong_options_are_refused() -> None:
    model = small()
    with pytest.raises(ArgumentError, match="'weights' or 'dynamic' or 'q8_0' or .* or None"):
        model.freeze(1, quantize="int4")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(DataError, match="no examples"):
        model.quantization_report(np.ones((0, 6, 6, 4), np.float32))


def test_the_digits_are_read_as_well_as_before() -> None:
    split = load("digits")
    model = nn.Model(digits_network(), (8, 8, 1))
    model.fit(split.train.inputs, split.train.labels, epochs=4, batch_size=64)
    images, labels = split.test.inputs, split.test.labels
    plain = nn.Model(digits_network(), (8, 8, 1), backend="reference")
    for path, tensor in model.tensors().items():
        plain.tensors()[path].copy_from(tensor)
    right = (model.predict(images).argmax(-1) == labels).mean()
    assert right > 0.9
    for mode in ("weights", "dynamic"):
        for one in (plain, model):
            (scores,) = one.freeze(len(images), quantize=mode).run(images)
            assert (scores.argmax(-1) == labels).mean() >= right - 0.003, mode
