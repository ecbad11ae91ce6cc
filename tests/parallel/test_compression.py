"""Sums in few bits: what they lose comes into the next ones, and checkpoints keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parallel.ranks_as_threads import run_ranks

import nnc
from nnc import nn
from nnc.core.values.spec import spec
from nnc.errors import ArgumentError, UsageError
from nnc.ops.composed.custom import KERNEL
from nnc.parallel import Mesh, RankGroup, Wire, joined, simulate
from nnc.parallel.compression import COMPRESSED_SUM, Compression, CompressionAttrs, compressed_sums, encoded_bytes
from nnc.symbolic import SymbolicGraph

ELEMENTS = 700
X, Y = np.random.default_rng(0).standard_normal((12, 6)), np.random.default_rng(1).integers(0, 3, 12)
KINDS: tuple[Compression, ...] = ("bf16", "int8")


def summed(kind: Any, given: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of given[ranks, steps, elements], the sums of each step on each rank, and what is owed in the end."""
    ranks, steps, elements = given.shape
    attrs = CompressionAttrs(RankGroup(ranks), kind, 1)
    pieces = -(-elements // ranks)

    def run(rank: int) -> tuple[np.ndarray, np.ndarray]:
        error, own, sums = np.zeros((1, elements), np.float32), np.zeros(pieces, np.float32), []
        for step in range(steps):
            outputs = [np.empty(elements, np.float32), np.empty_like(error), np.empty_like(own)]
            KERNEL[COMPRESSED_SUM](attrs, [given[rank, step], error, own], outputs)
            total, error, own = outputs
            sums.append(total)
        owed = error[0].copy()
        owed[rank * pieces : (rank + 1) * pieces] += own[: elements - rank * pieces]
        return np.array(sums), joined(RankGroup(ranks)).allreduce(owed)

    return run_ranks(ranks, run)


@pytest.mark.parametrize("kind", KINDS)
def test_what_sums_lose_is_never_lost(kind: str) -> None:
    given = np.random.default_rng(2).standard_normal((3, 5, ELEMENTS)).astype(np.float32)
    # Numbers far below a scale's last bit: without errors fed back they would never come.
    given[:, :, 0] = 1e-4
    results = summed(kind, given)
    for sums, owed in results:
        np.testing.assert_array_equal(sums, results[0][0])
        np.testing.assert_allclose(sums.sum(0) + owed, given.sum((0, 1)), rtol=1e-5, atol=1e-5)
    bound = 0.03 if kind == "bf16" else 0.1
    assert np.abs(results[0][0] - given.sum(0)).max() < bound


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_number_is_told(kind: str) -> None:
    given = np.ones((2, 1, ELEMENTS), np.float32)
    given[1, 0, 300], given[0, 0, 699] = np.inf, np.nan
    sums = summed(kind, given)[0][0][0]
    assert not np.isfinite(sums[300])
    assert not np.isfinite(sums[699])
    assert sums[0] == 2
    assert not summed(kind, np.zeros((2, 1, 5), np.float32))[0][0].any()


def model(mesh: Mesh | None, compress: Any = None, **options: Any) -> nn.Model:
    tower = nn.Sequential(nn.Dense(8), nn.Tanh(), nn.Dense(3))
    return nn.Model(tower, (6,), optimizer=nn.SGD(0.2), mesh=mesh, compress=compress, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_is_nearly_that_of_whole_sums_and_goes_on_to_the_bit(kind: str, tmp_path: Path) -> None:
    x, path = X.astype(np.float32), tmp_path / "errors.safetensors"
    rows = nn.data.Examples("rows", x, Y)
    plain = model(None)
    expected = [plain.train_on_batch(x, Y)[0] for _ in range(6)]

    def part(made: nn.Model) -> float:
        rank = joined(RankGroup(2)).rank
        return made.train_on_batch(x[rank * 6 : rank * 6 + 6], Y[rank * 6 : rank * 6 + 6])[0]

    def run(rank: int) -> tuple[list[float], float]:
        made = model(Mesh(data=2), kind, nan_guard=True, clip_norm=10.0)
        losses = [part(made) for _ in range(5)]
        nn.save_checkpoint(path, made, nn.position_of(made, nn.data.Batches(rows, 12)))
        other = model(Mesh(data=2), kind, nan_guard=True, clip_norm=10.0)
        nn.load_checkpoint(path, other)
        assert any(tensor.numpy().any() for tensor in other.errors.values())
        losses.append(part(made))
        return losses, part(other)

    for losses, again in run_ranks(2, run):
        np.testing.assert_allclose(losses, expected, rtol=0.02)
        assert again == losses[-1]

    def owed(mesh: Mesh) -> dict[str, np.ndarray]:
        other = model(mesh, kind)
        nn.load_checkpoint(path, other)
        return {name: tensor.copied().sum(0) for name, tensor in other.errors.items() if name.startswith("error.")}

    # On another number of ranks the first has what all of them owe.
    first, *others = run_ranks(3, lambda rank: owed(Mesh(data=3)))
    pairs = run_ranks(2, lambda rank: owed(Mesh(data=2)))
    assert not any(values.any() for other in others for values in other.values())
    assert all(np.allclose(values, pairs[0][name] + pairs[1][name]) for name, values in first.items())
    nn.load_checkpoint(path, plain)


def test_sums_of_batches_bytes_and_what_is_refused() -> None:
    def run(rank: int) -> list[float]:
        made = model(Mesh(data=2), "int8", dtype=nnc.f64)
        return [row["loss"] for row in made.fit(X, Y, batch_size=6, epochs=2, accumulate=2).rows]

    whole = [row["loss"] for row in model(None, dtype=nnc.f64).fit(X, Y, batch_size=6, epochs=2, accumulate=2).rows]
    for losses in run_ranks(2, run):
        np.testing.assert_allclose(losses, whole, rtol=0.02)
    compressed, plain = (model(Mesh(data=2), kind).memory(6) for kind in ("int8", None))
    assert compressed.optimizer_state > plain.optimizer_state
    sent = {}
    for kind in KINDS:
        graph = SymbolicGraph()
        x, error, own = (graph.input(spec(shape), "x") for shape in ((1 << 20,), (1, 1 << 20), (1 << 18,)))
        compressed_sums([x], [error], own, RankGroup(4), kind)
        sent[kind] = simulate(graph, Wire(0.0, 1.0)).sent
    assert (sent["bf16"], sent["int8"]) == (6 * encoded_bytes("bf16", 1 << 18), 6 * encoded_bytes("int8", 1 << 18))
    assert sent["int8"] < 0.26 * 6 * 4 * (1 << 18)
    for mesh, stage in ((Mesh(data=2), 1), (Mesh(data=2, tensor=2), 0), (Mesh(pipe=2), 0), (None, 0)):
        with pytest.raises(UsageError, match="compress='bf16' beside other parts"):
            model(mesh, "bf16", zero_stage=stage)
    with pytest.raises(ArgumentError, match="bf16"):
        model(Mesh(data=2), "int4")
