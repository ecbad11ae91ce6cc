"""Rows whose columns are split: losses of split logits on several ranks are those of one, whatever the loss."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.parallel.ranks_as_threads import run_ranks
from tests.parallel.test_tensor_parallel import assert_same, trained

import nnc
from nnc import nn
from nnc.core.values.command import Command
from nnc.nn.optimization.token_losses import TokenCrossEntropy
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.ops import log, log_softmax, reduce_mean, reshape, softmax, square, subtract
from nnc.ops.operand import apply
from nnc.parallel import Mesh, Pipeline
from nnc.parallel.block_operators import (
    FIRST_LARGEST,
    JOIN_BLOCKS,
    JOIN_LOGSUMS,
    LABEL_LOSS,
    OWN_LABELS,
    RankBlockAttrs,
)
from nnc.parallel.collectives import GroupAttrs

DRAW = np.random.default_rng(0)
X, LABELS = DRAW.standard_normal((4, 3)), np.array([0, 1, 4, 2])
TOKENS = DRAW.integers(0, 5, (4, 3)).astype(np.int32)
SOME = np.where(np.arange(12).reshape(4, 3) % 5 < 3, TOKENS, -1).astype(np.int32)
NOBODY = np.full_like(SOME, -1)
SHARES, NUMBERS = DRAW.dirichlet(np.ones(5), 4), DRAW.standard_normal((4, 5))
TWO, THREE = Mesh(tensor=2), Mesh(tensor=3)


def head(*tail: Any) -> nn.Sequential:  # layers
    """Logits of five classes, whose columns neither two nor three ranks divide."""
    return nn.Sequential(nn.Replicated(nn.Dense(16)), nn.ReLU(), nn.Dense(5), *tail)


def of_probabilities(output: Any, target: Any) -> Any:  # operands
    return reduce_mean(square(subtract(log(softmax(output)), target)))


PLAIN, PLACES = nn.SoftmaxCrossEntropy(), nn.Lambda(lambda x: reshape(x, (*x.shape, 1)))
CASES: dict[str, tuple[nn.Layer, Any, Any, Any, Mesh, dict[str, Any]]] = {
    "labels": (head(), PLAIN, X, LABELS, THREE, {"clip_norm": 0.1, "nan_guard": True}),
    "one example": (head(), PLAIN, X[:1], LABELS[:1], TWO, {}),
    "sixteen bits": (head(), PLAIN, X.astype(np.float32), LABELS, TWO, {"precision": nnc.bf16, "dtype": nnc.f32}),
    "smoothed": (head(), nn.SmoothedCrossEntropy(), X, LABELS, THREE, {}),
    "shares": (head(), nn.KLDivergence(), X, SHARES, TWO, {}),
    "numbers": (head(), nn.MeanSquaredError(), X, NUMBERS, TWO, {}),
    "logarithms": (head(nn.Lambda(log_softmax)), nn.MeanSquaredError(), X, NUMBERS, TWO, {}),
    "a function": (head(), of_probabilities, X, NUMBERS, TWO, {}),
    "places": (nn.Sequential(PLACES, head()), PLAIN, X, TOKENS, TWO, {}),
    "behind a product": (nn.Sequential(nn.Dense(16), nn.ReLU(), nn.Dense(20)), PLAIN, X, LABELS, THREE, {}),
    "adapters": (
        nn.LoRA(nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dense(66)), ("*",), rank=1),
        PLAIN,
        X,
        LABELS,
        TWO,
        {},
    ),
    "some labels": (nn.Sequential(PLACES, head()), TokenCrossEntropy(), X, SOME, TWO, {}),
    "no labels": (nn.Sequential(PLACES, head()), TokenCrossEntropy(), X, NOBODY, TWO, {}),
    "parts of a batch": (head(), PLAIN, X, LABELS, Mesh(data=2, tensor=2), {"zero_stage": 3}),
    "stages": (head(), PLAIN, X, LABELS, Mesh(tensor=2, pipe=2), {"pipeline": Pipeline(2, schedule="1f1b")}),
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CASES)
def test_losses_of_split_logits_are_those_of_one_rank(name: str) -> None:
    layer, loss, x, y, mesh, options = CASES[name]

    def run(mesh: Mesh | None) -> dict[str, Any]:
        own = options if mesh else {key: value for key, value in options.items() if key != "zero_stage"}
        model = nn.Model(layer, X.shape[1:], loss=loss, mesh=mesh, **{"dtype": nnc.f64} | own)
        if mesh is not None:
            place = model.specs[next(path for path in model.specs if path.endswith("2.weight"))].place
            assert place is not None
            assert place.axis == 1
        return trained(model, x, y)

    with patch("nnc.parallel.splitting.ALONE_ELEMENTS", 80):
        one, (first, *others) = run(None), run_ranks(mesh.size, lambda _: run(mesh))
    assert_same(first, one, 2e-2 if "precision" in options else 1e-9)
    for other in others:
        assert all(np.array_equal(other[key], value) for key, value in first.items())


def test_a_step_joins_logits_for_those_alone_who_ask_for_them() -> None:
    net = nn.Sequential(nn.Dense(4), nn.ReLU(), nn.ColumnParallel(nn.Dense(1 << 12)))
    one, many = (nn.Model(net, (4,), loss=PLAIN, mesh=mesh) for mesh in (None, Mesh(tensor=4)))
    # Logits take 0.5 MB.
    assert many.memory(32).step.arena < 0.3 * one.memory(32).step.arena
    for kind, outputs in ((StepKind.TRAIN, False), (StepKind.EVALUATE, False), (StepKind.EVALUATE, True)):
        key = StepKey(kind, 32, outputs=outputs)
        graph = many._builder().drafted(key, None)
        ops = [record.command.op for _, record in graph.execs.items()]
        assert LABEL_LOSS not in ops
        assert ops.count(JOIN_BLOCKS) == outputs


def test_a_wide_product_is_split_by_rows_where_its_columns_would_be_joined() -> None:
    joined = nn.Sequential(nn.Dense(16), nn.ReLU(), nn.Dense(20), nn.LayerNorm())
    with patch("nnc.parallel.splitting.ALONE_ELEMENTS", 80):
        axes = [row.place and row.place.axis for row in nn.Model(joined, (4,), mesh=TWO).specs.values()]
    assert axes[:4] == [1, 0, 0, None]


def test_numbers_of_a_row_that_ranks_trade() -> None:
    place, group = RankBlockAttrs(TWO.group("tensor"), 1, 5), GroupAttrs(TWO.group("tensor"))
    sums = np.array([[0.0, -np.inf, 700.0, -np.inf], [1.0, 2.0, 700.0, -np.inf]])
    values, places = np.array([[1.0, 3.0, np.nan], [1.0, 4.0, 9.0]]), np.array([[2, 0, 1], [1, 1, 0]])
    labels = np.array([0, 3, 4, 5, -1], np.int16)

    def work(rank: int) -> list[Any]:
        x, label = nnc.variable(sums[rank]), nnc.tensor(labels)
        total, slope = apply(JOIN_LOGSUMS, group, x), nnc.grad(lambda x: apply(JOIN_LOGSUMS, group, x).sum())(x)
        first = apply(FIRST_LARGEST, place, nnc.tensor(values[rank]), nnc.tensor(places[rank]))
        return [each.numpy() for each in (total, slope, *label.apply(Command(OWN_LABELS, place), (label,)), first)]

    (total, slope, own, known, first), (same, other, others, _, second) = run_ranks(2, work)
    np.testing.assert_allclose(total, [np.logaddexp(0, 1), 2.0, 700 + np.log(2), -np.inf])
    np.testing.assert_array_equal(total, same)
    np.testing.assert_allclose((slope + other)[:3], 1.0)
    # Blocks of three and two columns: of equal values it is the first, and no number is larger than any.
    assert [own.tolist(), others.tolist()] == [[0, -1, -1, -1, -1], [-1, 0, 1, -1, -1]]
    assert known.tolist() == [True, True, True, False, False]
    assert first.tolist() == second.tolist() == [2, 4, 1]
