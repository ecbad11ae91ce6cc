"""Losses under PyTorch's names and MLX's, by their formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import DataError, DTypeError, ShapeError, UsageError

DRAW = np.random.default_rng(0)
SCORES, LABELS = DRAW.standard_normal((6, 3)).astype(np.float32), np.array([0, 2, 1, 1, 0, 2])
LOGS = SCORES - np.log(np.exp(SCORES).sum(1, keepdims=True))
CHOSEN = -LOGS[np.arange(6), LABELS]
WEIGHTS = np.array([1.0, 2.0, 0.5], np.float32)
FACTORS = WEIGHTS[LABELS]
SMOOTH = 0.9 * FACTORS * CHOSEN + 0.1 * -(LOGS * WEIGHTS).mean(1)
ON = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0], np.float32)
LOGITS = SCORES[:, 0]
P = 1 / (1 + np.exp(-LOGITS))
BINARY = -(ON * np.log(P) + (1 - ON) * np.log(1 - P))
SHARES = np.full((6, 3), 1 / 3, np.float32)

CASES: dict[str, tuple[Callable[[], Any], tuple[Any, ...], Any]] = {
    "classes": (lambda: nn.CrossEntropyLoss(), (SCORES, LABELS), CHOSEN.mean()),
    "weights": (lambda: nn.CrossEntropyLoss(WEIGHTS), (SCORES, LABELS), (FACTORS * CHOSEN).sum() / FACTORS.sum()),
    "smoothed": (
        lambda: nn.CrossEntropyLoss(weight=WEIGHTS, label_smoothing=0.1), (SCORES, LABELS), SMOOTH.sum() / FACTORS.sum()
    ),
    "sum": (lambda: nn.CrossEntropyLoss(reduction="sum"), (SCORES, LABELS), CHOSEN.sum()),
    "none": (lambda: nn.NLLLoss(reduction="none"), (LOGS, LABELS), CHOSEN),
    "left out": (lambda: nn.NLLLoss(ignore_index=1), (LOGS, LABELS), CHOSEN[LABELS != 1].mean()),
    "padding": (
        lambda: nn.CrossEntropyLoss(), (SCORES, np.where(LABELS == 1, -100, LABELS)), CHOSEN[LABELS != 1].mean()
    ),
    "axis 1": (lambda: nn.CrossEntropyLoss(), (SCORES.T[None], LABELS[None]), CHOSEN.mean()),
    "shares": (lambda: nn.CrossEntropyLoss(), (SCORES, SHARES), -LOGS.mean()),
    "logits": (
        lambda: nn.BCEWithLogitsLoss(pos_weight=[3.0]), (LOGITS, ON), (BINARY * np.where(ON == 1, 3.0, 1.0)).mean()
    ),
    "probabilities": (lambda: nn.BCELoss(reduction="sum"), (P, ON), BINARY.sum()),
    "squares": (lambda: nn.MSELoss(reduction="sum"), (LOGITS, ON), ((LOGITS - ON) ** 2).sum()),
    "distances": (lambda: nn.L1Loss(reduction="none"), (LOGITS, ON), np.abs(LOGITS - ON)),
    "huber": (lambda: nn.HuberLoss(delta=0.5), ([2.0, 0.1], [0.0, 0.0]), (0.5 * 1.75 + 0.005) / 2),
    "smooth l1": (lambda: nn.SmoothL1Loss(beta=0.5), ([2.0, 0.1], [0.0, 0.0]), (1.75 + 0.01) / 2),
    "divergence": (
        lambda: nn.KLDivLoss(reduction="batchmean"), (LOGS, SHARES), (SHARES * (np.log(1 / 3) - LOGS)).sum() / 6
    ),
    "cosine": (lambda: nn.CosineEmbeddingLoss(), ([[1.0, 0.0]] * 2, [[0.0, 1.0], [1.0, 1.0]], [1, -1]), 0.853553),
    "mlx classes": (lambda: nn.losses.cross_entropy, (SCORES, LABELS), CHOSEN),
    "mlx logits": (lambda: nn.losses.binary_cross_entropy, (LOGITS, ON), BINARY.mean()),
    "mlx divergence": (
        lambda: nn.losses.kl_div_loss, (LOGS, np.log(SHARES)), (SHARES * (np.log(1 / 3) - LOGS)).sum(1)
    ),
    "mlx cosh": (lambda: nn.losses.log_cosh_loss, ([1.0], [0.0]), [np.log(np.cosh(1.0))]),
    "mlx hinge": (lambda: nn.losses.hinge_loss, ([0.5], [1.0]), [0.5]),
    "mlx triplet": (lambda: nn.losses.triplet_loss, ([[0.0]], [[0.0]], [[0.5]]), [0.501]),
    "mlx huber": (lambda: nn.losses.huber_loss, ([2.0], [0.0]), [1.5]),
    "mlx similarity": (lambda: nn.losses.cosine_similarity_loss, ([[1.0, 0.0]], [[2.0, 0.0]]), [1.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_losses_are_their_formulas(name: str) -> None:
    make, arguments, wanted = CASES[name]
    np.testing.assert_allclose(
        make()(*map(nnc.tensor, arguments)).numpy(), wanted, rtol=2e-3 if "triplet" in name else 1e-5
    )


def test_traced_targets_may_be_left_out_too() -> None:
    criterion = nn.CrossEntropyLoss()
    labels = np.where(LABELS == 1, -100, LABELS)
    compiled = nnc.compile(lambda x, y: criterion(x, y))(SCORES, labels)
    np.testing.assert_allclose(compiled.numpy(), CHOSEN[LABELS != 1].mean(), rtol=1e-6)
    gradient = nnc.grad(lambda x: criterion(x, labels))(nnc.tensor(SCORES)).numpy()
    assert not gradient[LABELS == 1].any()
    assert gradient[LABELS != 1].any()


def test_models_take_means_alone() -> None:
    x, y = DRAW.standard_normal((8, 4)).astype(np.float32), DRAW.integers(0, 3, 8)
    model = nn.Model(nn.Dense(3), (4,), loss=nn.CrossEntropyLoss())
    model.fit(x, y, epochs=1)
    with pytest.raises(UsageError, match="weight in a model"):
        nn.Model(nn.Dense(3), (4,), loss=nn.CrossEntropyLoss(weight=WEIGHTS)).fit(x, y, epochs=1)
    with pytest.raises(DataError, match="a label out of range"):
        nn.CrossEntropyLoss()(SCORES, LABELS + 1)
    assert repr(nn.NLLLoss()) == "NLLLoss(weight=None, ignore_index=-100, reduction='mean')"


def test_complex_weights_are_refused() -> None:
    with pytest.raises(DTypeError, match="weights of a loss: got complex128; need real numbers"):
        nn.BCEWithLogitsLoss(np.array([1 + 2j]))


def test_alignments_cost_what_torch_says() -> None:
    """Numbers of torch 2.13, of the same draws; the gradient is that through log_softmax, as torch's is."""
    scores = np.random.default_rng(0).standard_normal((6, 3, 5)).astype(np.float32)
    labels, steps, said = np.array([[1, 2, 2, 3], [4, 1, 0, 0], [2, 2, 2, 0]]), [6, 5, 6], [4, 2, 3]
    x = nnc.variable(scores)
    logs = nnc.log_softmax(x, axis=2)
    loss = nn.CTCLoss()(logs, labels, steps, said)
    assert loss.item() == pytest.approx(2.6285159588)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy()[0, 0], [0.007424, -0.060861, 0.028216, 0.016517, 0.008704], atol=1e-6)
    each = nn.CTCLoss(reduction="none")
    np.testing.assert_allclose(each(logs, labels, steps, said).numpy(), [9.781, 4.8870568, 8.9903059], rtol=1e-6)
    assert each(logs, labels, steps, [0, 2, 3])[0].item() == pytest.approx(16.5425148)
    in_a_row = np.concatenate([row[:count] for row, count in zip(labels, said, strict=True)])
    assert nn.CTCLoss()(logs, in_a_row, tuple(steps), tuple(said)).item() == pytest.approx(loss.item())
    assert nn.CTCLoss(zero_infinity=True)(logs, labels, [3, 5, 6], said).item() == pytest.approx(1.8134323)
    others = [[0, 1], [1, 2], [0, 0]]
    assert nn.CTCLoss(blank=4)(logs, others, (6, 6, 6), (2, 2, 1)).item() == pytest.approx(4.2932105)
    assert nn.CTCLoss()(logs[:, 0], labels[0], 6, 4).item() == pytest.approx(2.44525)
    assert nnc.jit(nn.CTCLoss())(logs, labels, nnc.tensor(steps), nnc.tensor(said)).item() == pytest.approx(loss.item())
    with pytest.raises(DataError, match="input length of 7"):
        nn.CTCLoss()(logs, labels, [7, 5, 6], said)
    with pytest.raises(ShapeError, match="labels"):
        nn.CTCLoss()(logs, labels, steps, [4, 2])
    with pytest.raises(DTypeError, match="integers"):
        nn.CTCLoss()(logs, labels.astype(np.float32), steps, said)
