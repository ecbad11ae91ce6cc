"""What PyTorch and MLX keep in packages called utils."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import nn, utils
from nnc.errors import ArgumentError, DataError
from nnc.utils import data
from nnc.utils.checkpoint import checkpoint


class Stream(data.IterableDataset[int]):
    def __iter__(self):
        return iter(range(5))


def test_orders_of_samplers() -> None:
    examples = data.ConcatDataset([[10, 11, 12], [13, 14]])
    assert (len(examples), examples[3], examples[-1]) == (5, 13, 14)
    ordered = [batch.tolist() for batch in data.DataLoader(examples, 2, drop_last=True)]
    assert ordered == [[10, 11], [12, 13]]
    batches = data.BatchSampler(data.SequentialSampler(examples), 2, drop_last=False)
    assert [batch.tolist() for batch in data.DataLoader(examples, batch_sampler=batches)] == [[10, 11], [12, 13], [14]]
    assert len(data.DataLoader(examples, batch_sampler=batches)) == 3
    drawn = list(data.RandomSampler(examples))
    assert sorted(drawn) == list(range(5))
    assert len(list(data.RandomSampler(examples, replacement=True, num_samples=9))) == 9
    assert sorted(data.SubsetRandomSampler([1, 4])) == [1, 4]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 1.0], 20)) == {1, 2}
    assert set(data.WeightedRandomSampler([1e308, 0.0, 1e308], 20)) == {0, 2}
    loader = data.DataLoader(examples, 3, sampler=data.SubsetRandomSampler([0, 1]))
    assert sorted(next(iter(loader)).tolist()) == [10, 11]


def test_a_generator_gives_the_same_order_again() -> None:
    def order() -> list[int]:
        generator = nnc.Generator().manual_seed(3)
        return [batch.item() for batch in data.DataLoader(range(8), 1, shuffle=True, generator=generator)]

    assert order() == order() != list(range(8))
    parts = [data.random_split(range(6), [2, 4], generator=nnc.Generator().manual_seed(1)) for _ in range(2)]
    assert [list(part) for part in parts[0]] == [list(part) for part in parts[1]]


def test_streams_and_single_examples() -> None:
    assert [batch.tolist() for batch in data.DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(data.DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]
    assert list(data.DataLoader([3, 4], batch_size=None)) == [3, 4]


def test_refusals_of_loaders() -> None:
    with pytest.raises(ArgumentError, match="shuffle beside a sampler"):
        data.DataLoader([1], shuffle=True, sampler=[0])
    with pytest.raises(DataError, match="at most 1 without replacement"):
        data.WeightedRandomSampler([0.0, 1.0], 2, replacement=False)
    with pytest.raises(DataError, match="numbers ≥ 0"):
        data.WeightedRandomSampler([-1.0], 2)
    with pytest.raises(DataError, match="at most 1 without replacement"):
        data.WeightedRandomSampler([1e308, 1e-308], 2, replacement=False)
    with pytest.raises(DataError, match="no data sets"):
        data.ConcatDataset([])


def test_trees_by_paths() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    pairs = utils.tree_flatten(net.parameters())
    assert [path for path, _ in pairs] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    tree = utils.tree_unflatten(pairs)
    assert isinstance(tree, list)
    assert tree[0]["weight"].shape == (3, 2)
    assert utils.tree_map(lambda p: p.shape, net.parameters())["1.bias"] == (1,)
    assert utils.tree_map_with_path(lambda path, leaf: path, {"a": (1, 2)}) == {"a": ("a.0", "a.1")}
    assert utils.tree_unflatten([("", 3)]) == 3


def test_checkpoints_compute_again() -> None:
    x = nnc.variable([0.5])
    checkpoint(lambda x: nnc.tanh(x) * x, x, use_reentrant=False).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.tanh(0.5) + 0.5 * (1 - np.tanh(0.5) ** 2), rtol=1e-6)


def test_packages_inside_are_attributes() -> None:
    assert nnc.utils.data.DataLoader is not None
    assert nnc.utils.checkpoint.checkpoint is not None
    with pytest.raises(AttributeError, match="module 'nnc.utils' has no 'dat'"):
        nnc.utils.dat  # type: ignore[attr-defined]  # what is tested
