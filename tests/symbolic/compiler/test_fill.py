"""Symbols with a fill: the run fills them where they are first used, behind whoever held the bytes before."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import SymbolError
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import SymbolicGraph, compile

COPIED = Command(contiguous, NoAttrs())
pytestmark = pytest.mark.usefixtures("debug")


def test_what_nobody_writes_holds_the_fill_in_each_run() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((4,))), graph.input(spec((12,)), fill=1.0)
    y = ops.exp(x)
    graph.apply(COPIED, [y], [whole[4:8]])
    z = ops.affine(whole, 2.0)
    compiled = compile(graph, [z], backend="reference")
    for _ in range(2):
        got = compiled({x: [0, 0, 0, 0]}, z)[0]
        np.testing.assert_array_equal(got, [2.0] * 12)
        got = compiled({x: [1, 1, 1, 1]}, z)[0]
        np.testing.assert_allclose(got, [2.0] * 4 + [2 * np.e] * 4 + [2.0] * 4, rtol=1e-6)


def test_it_lives_from_its_first_use_and_takes_bytes_that_others_had() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((64,))), graph.input(spec((128,)), fill=0.0)
    wide = ops.broadcast_to(ops.reshape(x, (64, 1)), (64, 64))
    y = ops.reduce_sum(wide, 1)
    graph.apply(COPIED, [y], [whole[0:64]])
    z = ops.affine(whole, 1.0)
    compiled = compile(graph, [z], backend="reference")
    lives = compiled.planned.lives
    assert (lives.of[whole.key].lower, lives.fills) == (2, {2: [whole.key]})
    assert compiled.memory().arena == 64 * 64 * 4 + 64 * 4
    got = compiled({x: np.arange(64)}, z)[0]
    np.testing.assert_array_equal(got, [*(np.arange(64) * 64), *([0] * 64)])


def test_from_outside_it_would_live_from_the_start() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((64,))), graph.input(spec((128,)))
    y = ops.reduce_sum(ops.broadcast_to(ops.reshape(x, (64, 1)), (64, 64)), 1)
    graph.apply(COPIED, [y], [whole[0:64]])
    late = ops.affine(whole, 1.0)
    lives = compile(graph, [late], backend="reference").planned.lives
    assert (lives.of[whole.key].lower, lives.of[whole.key].outside) == (0, True)


def test_places_that_nobody_reads_need_no_value() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((64,))), graph.input(spec((128,)))
    y = ops.reduce_sum(ops.broadcast_to(ops.reshape(x, (64, 1)), (64, 64)), 1)
    graph.apply(COPIED, [y], [whole[32:96]])
    late = ops.affine(whole[40:60], 1.0)
    compiled = compile(graph, [late], backend="reference")
    assert (compiled.planned.lives.of[whole.key].lower, compiled.planned.lives.of[whole.key].outside) == (2, False)
    np.testing.assert_array_equal(compiled({x: np.arange(64)}, late)[0], np.arange(8, 28) * 64)
    # Before the run its bytes are those of the input.
    with pytest.raises(SymbolError, match="which each run computes"):
        compiled.write(whole, np.zeros(128))


def test_a_fill_alone_is_a_constant() -> None:
    graph = SymbolicGraph()
    x, ones, zeros = graph.input(spec((3,))), graph.input(spec((3,)), fill=1.0), graph.input(spec((2,)), fill=0.0)
    y = x + ones
    compiled = compile(graph, [y, zeros, ones], backend="reference")
    got = compiled({x: [1, 2, 3]}, y, zeros, ones)
    for one, want in zip(got, ([2, 3, 4], [0, 0], [1, 1, 1]), strict=True):
        np.testing.assert_array_equal(one, want)
    with pytest.raises(SymbolError, match="which each run fills"):
        compiled.write(ones, [5, 5, 5])


def test_in_memory_of_the_caller_a_computed_one_is_filled_and_a_given_one_is_not() -> None:
    graph = SymbolicGraph()
    x, whole, given = graph.input(spec((2,))), graph.input(spec((4,)), fill=7.0), graph.input(spec((4,)), fill=7.0)
    graph.apply(COPIED, [ops.exp(x)], [whole[1:3]])
    z = ops.add(whole, given)
    home, mine = Tensor.zeros(spec((4,))), Tensor.from_numpy(np.float32([1, 2, 3, 4]))
    compiled = compile(graph, [z], given={given: mine}, bind={whole: home}, backend="reference")
    np.testing.assert_array_equal(compiled({x: [0, 0]}, z)[0], [8, 3, 4, 11])
    np.testing.assert_array_equal(home.numpy(), [7, 1, 1, 7])
    np.testing.assert_array_equal(mine.numpy(), [1, 2, 3, 4])


def test_in_a_loop_each_iteration_fills_anew() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2,), "f64"))
    y = x
    for _ in range(3):
        whole = graph.input(spec((4,), "f64"), fill=0.5)
        graph.apply(COPIED, [y], [whole[0:2]])
        y = ops.reshape(ops.reduce_sum(ops.reshape(whole, (2, 2)), 0), (2,))
    got = compile(graph, [y], backend="reference")({x: [1.0, 2.0]}, y)[0]
    np.testing.assert_array_equal(got, [2.5, 3.5])


@pytest.mark.parametrize("streams", [1, 3])
def test_parts_written_side_by_side_come_behind_the_fill(streams: int) -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((8,))), graph.input(spec((40,)), fill=-1.0)
    for part in range(4):
        y = ops.sin(ops.affine(x, float(part)))
        graph.apply(COPIED, [y], [whole[10 * part : 10 * part + 8]])
    z = ops.affine(whole, 1.0)
    compiled = compile(graph, [z], backend="reference", streams=streams)
    want = np.full(40, -1.0, np.float32)
    for part in range(4):
        want[10 * part : 10 * part + 8] = np.sin(np.float32(part) * np.arange(8, dtype=np.float32))
    for _ in range(3):
        np.testing.assert_array_equal(compiled({x: np.arange(8)}, z)[0], want)
