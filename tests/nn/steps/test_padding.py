"""Training that meets many sizes: few programs, results as those of exact ones, and a reason where that cannot be."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from nnc import nn, ops
from nnc.core.values.dtype import BOOL, I32
from nnc.errors import MemoryLimitError, ShapeError
from nnc.nn.data import Batches, Examples
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.padding import padded_size
from nnc.nn.steps.programs import ModelPrograms
from nnc.nn.zoo import GPT, lstm_language_model
from nnc.ops.operand import T

RANDOM = np.random.default_rng(0)


def plain(**options: object) -> nn.Model:
    layer = nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dropout(0.2), nn.LayerNorm(), nn.Dense(3))
    return nn.Model(layer, (4,), optimizer=nn.SGD(0.1), seed=2, **options)  # type: ignore[arg-type]  # by name


def language(layer: nn.Layer | None = None, most: int = 64, **options: object) -> nn.Model:
    shape, optimizer = (nn.UpTo(most),), nn.SGD(0.1)
    net = layer or GPT(11, most, 8, 1, 2)
    return nn.Model(net, shape, input_dtype=I32, optimizer=optimizer, seed=2, **options)  # type: ignore[arg-type]


def batch(count: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(count)
    return generator.standard_normal((count, 4)).astype(np.float32), generator.integers(0, 3, count)


def tokens(count: int, steps: int) -> np.ndarray:
    return np.random.default_rng(steps).integers(0, 11, (count, steps))


def exact(monkeypatch: pytest.MonkeyPatch, most: int = 10**6) -> None:
    """From here on so many sizes are compiled as they are."""
    monkeypatch.setattr("nnc.nn.steps.programs.EXACT", most)


@pytest.fixture(autouse=True)
def two_exact_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    exact(monkeypatch, 2)


def test_programs_of_400_batch_sizes_and_100_lengths_are_eight_at_most() -> None:
    net, sizes = plain(backend="reference"), [3, 400, *range(1, 401)]
    assert len({net._programs.fitting(StepKey(StepKind.TRAIN, size)) for size in sizes}) <= 8
    net = language(most=128)
    assert len({net._programs.fitting(StepKey(StepKind.TRAIN, 4, length)) for length in [3, 100, *range(1, 101)]}) <= 8


@pytest.mark.turns(4)
@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_updates_are_those_of_exact_sizes(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    padded, whole = plain(backend=backend, clip_norm=1.0), plain(backend=backend, clip_norm=1.0)
    sizes = (7, 9, 3, 17, 1, 20)
    found = [padded.train_on_batch(*batch(size)) for size in sizes]
    assert {(key.kind, key.batch, key.padded) for key in padded._programs.kept._table} == {
        (StepKind.TRAIN, 7, False),
        (StepKind.TRAIN, 9, False),
        (StepKind.TRAIN, 16, True),
        (StepKind.TRAIN, 32, True),
    }
    exact(monkeypatch)
    wanted = [whole.train_on_batch(*batch(size)) for size in sizes]
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    for path, tensor in whole.parameters.items():
        np.testing.assert_allclose(padded.parameters[path].numpy(), tensor.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.turns(4)
@pytest.mark.parametrize("layer", [None, lstm_language_model(11, 8)], ids=["gpt", "lstm"])
def test_lengths_are_open_where_no_step_sees_a_later_one(
    layer: nn.Layer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    padded, whole = (language(layer, backend="reference") for _ in range(2))
    assert padded.padding() == ""
    sizes = [(2, 5), (2, 6), (3, 9)]
    found = [padded.train_on_batch(tokens(*size), tokens(*size)) for size in sizes]
    exact(monkeypatch)
    wanted = [whole.train_on_batch(tokens(*size), tokens(*size)) for size in sizes]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def last_step(x: T) -> T:
    return ops.reshape(ops.slice_axis(x, 1, x.shape[1] - 1, x.shape[1]), (x.shape[0], 4))


REASONS = [
    (nn.Sequential(nn.Dense(4), nn.BatchNorm()), (4,), "train", "1.batch_norm"),
    (nn.TransformerBlock(2), (nn.UpTo(32), 4), "train", "attention lets rows reach each other"),
    (nn.Lambda(lambda x: ops.softmax(ops.transpose(x, (1, 0)))), (4,), "train", "softmax"),
    (nn.Lambda(lambda x: ops.subtract(x, ops.reduce_mean(x, (0,), keepdims=True))), (4,), "train", "reduce_mean"),
    (nn.Lambda(lambda x: ops.flip(x, (0,))), (4,), "train", "flip"),
    (nn.Lambda(lambda x: ops.reduce_mean(x, (1,))), (nn.UpTo(32), 4), "train", "reduce_mean"),
    (nn.Lambda(last_step), (nn.UpTo(9), 4), "train", "takes one row"),
    (nn.Lambda(lambda x: ops.affine(x, 1.0 / x.shape[1])), (nn.UpTo(9), 4), "train", "attributes of Lambda.affine"),
    (nn.Lambda(lambda x: ops.sort(x, 0)[0] if x.shape[0] > 6 else x), (4,), "train", "depends on the size"),
    (nn.Convolution(2), (nn.UpTo(16), 8, 1), "train", "convolution"),
    (nn.LSTM(2), (nn.UpTo(4), 8), "train", "at most 4 sizes"),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "shape", "kind", "told"), REASONS, ids=[row[3] for row in REASONS])
def test_where_padding_would_reach_others_the_reason_is_told(
    layer: nn.Layer, shape: tuple[int, ...], kind: str, told: str
) -> None:
    net = nn.Model(layer, shape, loss=nn.MeanSquaredError())
    assert told in net.padding(kind)


def test_batch_norm_learns_on_exact_batches() -> None:
    layer = nn.Sequential(nn.Dense(4), nn.BatchNorm())
    net = nn.Model(layer, (4,), backend="reference")
    for size in (2, 3, 4, 5):
        net.train_on_batch(*batch(size))
    assert set(net._programs.kept._table) == {StepKey(StepKind.TRAIN, size) for size in (2, 3, 4, 5)}


def test_a_resumed_training_takes_the_programs_of_the_whole_one(tmp_path: Path) -> None:
    def run(net: nn.Model, sizes: tuple[int, ...]) -> nn.Model:
        for size in sizes:
            net.train_on_batch(*batch(size))
        return net

    whole, begun, resumed = run(plain(), (7, 9, 3, 17, 9)), run(plain(), (7, 9, 3)), plain()
    batches = Batches(Examples("some", *batch(4)), 4)
    nn.save_checkpoint(tmp_path / "c", begun, nn.position_of(begun, batches))
    assert nn.load_checkpoint(tmp_path / "c", resumed).sizes == ((7, 0), (9, 0))
    for one in (run(resumed, (17, 9)), run(copy.deepcopy(begun), (17, 9))):
        for path, tensor in whole.parameters.items():
            assert tensor.numpy().tobytes() == one.parameters[path].numpy().tobytes()


def test_a_limit_that_padding_does_not_meet_is_met_by_the_exact_size() -> None:
    with pytest.raises(MemoryLimitError) as caught:
        plain(memory_limit=1).memory(32, "train+padded")
    net = plain(memory_limit=caught.value.smallest - 1)
    for size in (4, 5, 20, 6):
        net.train_on_batch(*batch(size))
    assert {key.batch for key in net._programs.kept._table} == {4, 5, 20, 16}


def test_a_padded_program_that_is_beyond_the_limit_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        plain(memory_limit=1).memory(32, "train+padded")
    net, asked, plan = plain(memory_limit=caught.value.smallest - 1), [], ModelPrograms._within_limit

    def counted(self: ModelPrograms, key: StepKey) -> object:
        asked.append(key)
        return plan(self, key)

    monkeypatch.setattr(ModelPrograms, "_within_limit", counted)
    for size in (4, 5, 20, 20, 21, 20):
        net.train_on_batch(*batch(size))
    assert asked.count(StepKey(StepKind.TRAIN, 32, padded=True)) == 1


def test_memory_is_that_of_the_largest_length_unless_one_is_asked_for() -> None:
    net = language()
    arenas = [net.memory(4, "predict", length).step.arena for length in (8, 32, 64)]
    assert arenas == sorted(arenas)
    assert net.memory(4, "predict").step.arena == arenas[-1]


def test_a_loss_of_a_user_s_own_takes_sizes_as_they_are() -> None:
    class Largest(nn.Loss):
        target_dtype = None

        def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
            return output

        def build(self, output, target):  # type: ignore[no-untyped-def]  # of any operand
            return ops.reduce_max(ops.square(ops.subtract(output, target)), (0, 1))

        score = build

    net = nn.Model(nn.Dense(2), (4,), loss=Largest())
    assert net.padding("train") == "a loss is no PointwiseLoss"
    assert net.padding("predict") == "predict steps take sizes as they are"
    assert net.padding("backward") == "backward steps take sizes as they are"


def test_lengths_that_do_not_fit_are_told() -> None:
    net = language(most=16)
    for wrong in (np.zeros((2, 17), np.int32), np.zeros((2, 0), np.int32), np.zeros(3, np.int32)):
        with pytest.raises(ShapeError, match=r"\[n, 1 to 16, …\]"):
            net.predict(wrong)
    with pytest.raises(ShapeError, match="one open axis, the first"):
        nn.Model(nn.Dense(2), (3, nn.UpTo(4)))


def test_sizes_are_powers_of_two_up_to_the_largest() -> None:
    assert [padded_size(size, 100) for size in (1, 17, 64, 65)] == [16, 32, 64, 100]


def test_an_output_without_the_open_axis_counts_rows_alone() -> None:
    """Of sequences of any length one answer each: the last batch of an epoch is padded by rows."""
    x, mask = nn.Input((nn.UpTo(12), 1)), nn.Input((nn.UpTo(12),), BOOL)
    memory = nn.LSTM(4, return_sequences=False)(x, mask)
    each = nn.LSTM(2)(x, mask)

    def model() -> nn.Model:
        net = nn.Functional((x, mask), (nn.Dense(1)(memory), each))
        return nn.Model(net, loss=(nn.MeanSquaredError(), nn.MeanSquaredError()), seed=3)

    random = np.random.default_rng(0)
    padded, plain = model(), model()
    # Two sizes are compiled as they are; the third runs padded.
    for count in (2, 4):
        inputs = np.ones((count, 9, 1)), np.ones((count, 9), bool)
        for one in (padded, plain):
            one.train_on_batch(inputs, (np.ones(count), np.ones((count, 9, 2))))
    values = random.standard_normal((11, 9, 1)), random.random((11, 9)) < 0.8
    targets = random.standard_normal(11), random.standard_normal((11, 9, 2))
    found = padded.train_on_batch(values, targets)
    wanted = plain.evaluation_step(11, 9).run(values, (targets[0][:, None], targets[1]))
    np.testing.assert_allclose(found, [float(one.item()) for one in wanted[:2]], rtol=1e-5)
