"""Batch normalization in a model: statistics are kept, saved, and used outside training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnc import nn
from nnc.nn.data import BatchState

SHAPE = (4, 4, 2)


def model(seed: int = 0) -> nn.Model:
    layer = nn.Sequential(conv=nn.Convolution(3), norm=nn.BatchNorm(), flatten=nn.Flatten(), head=nn.Dense(2))
    return nn.Model(layer, SHAPE, optimizer=nn.SGD(0.1), seed=seed, backend="reference")


def batch() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.standard_normal((8, *SHAPE)).astype(np.float32), generator.integers(0, 2, 8).astype(np.int32)


def test_running_statistics_follow_the_batches_and_keep_their_memory() -> None:
    subject = model()
    inputs, labels = batch()
    address = subject.statistics["norm.running_mean"].address
    convolution = subject.state_dict()["conv.weight"]
    subject.train_on_batch(inputs, labels)
    assert subject.statistics["norm.running_mean"].address == address
    assert not np.array_equal(subject.state_dict()["conv.weight"], convolution)
    padded = np.pad(inputs, ((0, 0), (1, 1), (1, 1), (0, 0)))
    hidden = sum(padded[:, i : i + 4, j : j + 4] @ convolution[i, j] for i in range(3) for j in range(3))
    np.testing.assert_allclose(
        subject.statistics["norm.running_mean"].numpy(), 0.1 * hidden.mean((0, 1, 2)), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        subject.statistics["norm.running_variance"].numpy(), 0.9 + 0.1 * hidden.var((0, 1, 2)), rtol=1e-4
    )


def test_evaluation_and_prediction_leave_the_statistics_alone() -> None:
    subject = model()
    inputs, labels = batch()
    subject.train_on_batch(inputs, labels)
    before = subject.state_dict()
    subject.evaluate(inputs, labels)
    one_by_one = np.concatenate([subject.predict(inputs[index : index + 1]) for index in range(8)])
    np.testing.assert_allclose(subject.predict(inputs), one_by_one, rtol=1e-4, atol=1e-5)
    assert all(np.array_equal(before[path], value) for path, value in subject.state_dict().items())


def test_statistics_are_part_of_state_and_checkpoint(tmp_path: Path) -> None:
    subject, other = model(), model(seed=1)
    subject.train_on_batch(*batch())
    nn.save_checkpoint(tmp_path / "c.safetensors", subject, nn.Position(1, BatchState(0), 8))
    nn.load_checkpoint(tmp_path / "c.safetensors", other)
    want = subject.state_dict()
    assert "norm.running_variance" in want
    assert all(np.array_equal(want[path], value) for path, value in other.state_dict().items())
    assert subject.memory(8).weights == sum(value.nbytes for value in want.values())
