"""Parts of a batch: the same values in less memory; what mixes examples is left whole."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnc import nn, ops
from nnc.core.values.spec import spec
from nnc.errors import SymbolError
from nnc.ops.convolutions.window import window_of
from nnc.symbolic import Symbol, SymbolicGraph, compile, faults
from nnc.symbolic.passes import part_batch, parts, simplify

SAME = window_of(3, padding="same")


@pytest.fixture(autouse=True)
def _small_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "WIDE", 0)


def images(batch: int = 8, channels: int = 4) -> tuple[SymbolicGraph, Symbol, Symbol]:
    graph = SymbolicGraph()
    return graph, graph.input(spec((batch, 16, 16, channels)), "x"), graph.input(spec((3, 3, channels, channels)), "w")


def block(x: Symbol, w: Symbol) -> Symbol:
    return ops.relu(ops.convolution(x, w, window=SAME)) + x


def check(graph: SymbolicGraph, wanted: list[Symbol], data: list[Symbol]) -> tuple[dict[str, int], int, int]:
    """What was cut, and the arena before and after: every value is the same."""
    rng = np.random.default_rng(3)
    roots = [key for key, one in graph.tensors.items() if one.alias is None and not graph.writers(key)]
    given = {graph.symbol(key): rng.standard_normal(graph.tensors[key].spec.shape, np.float32) for key in roots}
    before = compile(graph, wanted, backend="reference")
    want = before(given, *wanted)
    fired = part_batch(graph, wanted, data)
    assert faults(graph) == ()
    after = compile(graph, wanted, backend="reference")
    for one, other in zip(want, after(given, *wanted), strict=True):
        np.testing.assert_array_equal(one, other)
    return dict(fired), before.memory().arena, after.memory().arena


def test_convolutions_run_part_by_part_in_the_memory_of_one_part() -> None:
    graph, x, w = images()
    y = ops.reduce_mean(ops.max_pool(block(block(x, w), w), (2, 2), window_of(2, stride=2)), axes=(1, 2))
    fired, before, after = check(graph, [y], [x])
    assert fired == {"parts": 4, "execs": 8}
    # x stays whole, and of two values there is a part.
    assert after < x.spec.nbytes + 0.6 * (before - x.spec.nbytes)


def test_fused_commands_are_cut_as_well() -> None:
    graph, x, w = images()
    y = block(block(x, w), w)
    simplify(graph, [y])
    assert check(graph, [y], [x])[0] == {"parts": 4, "execs": 4}


def test_what_others_read_stays_whole() -> None:
    graph, x, w = images()
    inner = block(x, w)
    y = ops.flip(block(inner, w), 0)
    assert check(graph, [y, inner], [x])[0]["parts"] == 4


@pytest.mark.parametrize(("batch", "count"), [(8, 4), (6, 3), (10, 5), (14, 7), (2, 2)])
def test_a_batch_is_cut_into_equal_parts(batch: int, count: int) -> None:
    graph, x, w = images(batch)
    assert check(graph, [block(x, w)], [x])[0]["parts"] == count


@pytest.mark.parametrize("batch", [0, 1, 11])
def test_a_batch_that_cannot_be_cut_stays(batch: int) -> None:
    graph, x, w = images(batch)
    assert part_batch(graph, [block(x, w)], [x]) == {}


MIXING: dict[str, Callable[[Symbol], Symbol]] = {
    "a flip of examples": lambda x: ops.flip(x, (0,)),
    "a sum of examples": lambda x: ops.reduce_sum(x, axes=(0,), keepdims=True),
    "a transposition": lambda x: ops.transpose(x, (1, 0, 2, 3)),
    "a concatenation of examples": lambda x: ops.concatenate([x, x], 0),
    "every second example": lambda x: ops.slice_axis(x, 0, 0, 8, 2),
    "one element": lambda x: x + ops.reshape(ops.slice_axis(ops.reshape(x, (-1,)), 0, 5, 6), ()),
    "a shift of examples": lambda x: ops.slice_axis(ops.reshape(x, (64, 4, 8, 4)), 0, 4, 12),
}


@pytest.mark.parametrize("name", list(MIXING))
def test_what_mixes_examples_is_not_cut(name: str) -> None:
    graph, x, w = images()
    y = ops.relu(MIXING[name](block(x, w)))
    assert check(graph, [y], [x])[0] == {"parts": 4, "execs": 3}
    assert len(graph.writers(y.key)) == 1


def test_a_smaller_operand_of_the_batch_is_along_another_axis() -> None:
    graph = SymbolicGraph()
    x, rows = graph.input(spec((8, 8, 16)), "x"), graph.input(spec((8, 16)), "rows")
    fired, _, _ = check(graph, [ops.relu(ops.relu(x) + ops.relu(rows))], [x, rows])
    assert fired == {"parts": 4, "execs": 2}


def test_a_part_of_channels_is_that_part_of_each_example() -> None:
    graph, x, w = images()
    y = block(x, w)
    left, right = (ops.slice_axis(y, 3, begin, begin + 2) for begin in (0, 2))
    shuffled = ops.transpose(ops.reshape(y, (8, 16, 16, 2, 2)), (0, 1, 2, 4, 3))
    z = ops.concatenate([ops.relu(right), ops.relu(left), ops.reshape(shuffled, y.shape)], 3)
    fired, before, after = check(graph, [ops.reduce_sum(z, axes=(1, 2))], [x])
    assert fired == {"parts": 4, "execs": 8}
    assert after < before


def test_large_weights_are_not_read_for_each_part() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((8, 4, 4, 128)), "x"), graph.input(spec((3, 3, 128, 128)), "w")
    assert part_batch(graph, [block(x, w)], [x]) == {}


def test_small_activations_stay_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "WIDE", 1 << 20)
    graph, x, w = images()
    assert part_batch(graph, [block(x, w)], [x]) == {}


def test_symbols_of_another_graph_are_refused() -> None:
    graph, x, w = images()
    with pytest.raises(SymbolError):
        part_batch(graph, [block(x, w)], [images()[1]])


def test_frozen_steps_run_in_parts() -> None:
    layers = (nn.Convolution(8), nn.BatchNorm(), nn.ReLU(), nn.MaxPool(2), nn.Convolution(8), nn.ReLU())
    model = nn.Model(nn.Sequential(*layers, nn.GlobalAveragePool(), nn.Dense(3)), (16, 16, 3))
    x = np.random.default_rng(0).standard_normal((8, 16, 16, 3), np.float32)
    step = model.freeze(8)
    assert next(report for report in step.passes if report.name == "parts").fired["parts"] == 4
    np.testing.assert_allclose(step.run(x)[0], model.predict(x), rtol=1e-5, atol=1e-6)
