"""Loss curves beside torch's numbers, which torch 2.13 computed once: `python benchmarks/curves.py` prints them.

Every tenth loss of 50 steps from the same weights on the same batches. The script compares all steps, networks among
them; here is what is cheap.
"""

from __future__ import annotations

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.nn.zoo import gru_language_model, lstm_language_model

CURVES: tuple[tuple[nn.Optimizer, tuple[float, ...]], ...] = (
    (nn.SGD(0.05, decay=1e-3), (2.428689, 0.95958, 0.382261, 0.350604, 0.227091)),
    (nn.SGD(0.05, nesterov=True), (2.428689, 0.918754, 0.366212, 0.351317, 0.223938)),
    (nn.Adam(0.01), (2.428689, 1.390751, 0.83225, 0.694707, 0.412453)),
    (nn.Adam(0.01, amsgrad=True), (2.428689, 1.390757, 0.832267, 0.694724, 0.412473)),
    (nn.AdamW(0.01, decay=0.1), (2.428689, 1.386694, 0.834283, 0.698184, 0.42167)),
    (nn.RMSProp(1e-3, momentum=0.5), (2.428689, 1.479271, 1.169031, 1.011649, 0.799752)),
    (nn.Adagrad(0.05), (2.428689, 0.880624, 0.53466, 0.523899, 0.340206)),
    (nn.Adadelta(0.5), (2.428689, 2.224117, 2.263728, 1.960076, 1.91625)),
    (nn.Adamax(0.01), (2.428689, 1.615013, 1.209836, 0.998987, 0.760815)),
    (nn.SGD(nn.Cosine(0.1, 50, 0.01)), (2.428689, 0.824514, 0.249092, 0.223916, 0.1956)),
    (nn.SGD(nn.CosineRestarts(0.1, 8, growth=2)), (2.428689, 0.893924, 0.339095, 0.301209, 0.24015)),
    (nn.SGD(nn.Exponential(0.1, 50, 0.01)), (2.428689, 0.855182, 0.314746, 0.355267, 0.24492)),
    (nn.SGD(nn.LinearSchedule(0.1, 40, 0.05)), (2.428689, 0.828883, 0.253861, 0.212023, 0.18759)),
    (nn.SGD(nn.Polynomial(0.1, 50, power=2.0)), (2.428689, 0.852625, 0.314825, 0.376536, 0.264843)),
    (nn.SGD(nn.StepDecay(0.1, 15, 0.5)), (2.428689, 0.819951, 0.244881, 0.241852, 0.203807)),
    (nn.SGD(nn.Milestones(0.1, (10, 30))), (2.428689, 0.819951, 0.489045, 0.597389, 0.413221)),
    (nn.SGD(nn.Warmup(10, nn.Constant(0.1), 0.1)), (2.428689, 0.896246, 0.264094, 0.17863, 0.192483)),
)


def tables(step: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(step).standard_normal((32, 8)).astype(np.float32)
    return x, x[:, :5].argmax(1).astype(np.int32)


def sentences(step: int) -> tuple[np.ndarray, np.ndarray]:
    tokens = (np.random.default_rng(step).integers(0, 3, (8, 17)).cumsum(1)) % 31
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


@pytest.mark.parametrize(("optimizer", "wanted"), CURVES, ids=[str(row[0]) for row in CURVES])
def test_a_perceptron_s_curve_is_torch_s(optimizer: nn.Optimizer, wanted: tuple[float, ...]) -> None:
    layer = nn.Sequential(nn.Dense(32), nn.Tanh(), nn.Dense(5))
    model = nn.Model(layer, (8,), optimizer=optimizer, backend="reference")
    losses = [model.train_on_batch(*tables(step))[0] for step in range(41)]
    np.testing.assert_allclose(losses[::10], wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        (lstm_language_model(31, 32), (3.4339, 3.420153, 3.388726)),
        (gru_language_model(31, 32), (3.430481, 3.391054, 3.311127)),
    ],
)
def test_a_language_model_s_curve_is_torch_s(layer: nn.Layer, wanted: tuple[float, ...]) -> None:
    model = nn.Model(layer, (16,), optimizer=nn.Adam(1e-3), input_dtype=I32)
    losses = [model.train_on_batch(*sentences(step))[0] for step in range(21)]
    np.testing.assert_allclose(losses[::10], wanted, rtol=1e-4)
