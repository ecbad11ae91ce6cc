"""Memory of the caller, of other programs and of other kinds: cases 7 and 9 of the reference, and shared arenas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnc import ops
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import ShapeError
from nnc.ops.elementwise.pointwise import AFFINE, AffineAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile


@pytest.mark.parametrize("late", [False, True])
def test_an_alias_of_all_of_an_output_is_bound(late: bool) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2, 3)))
    y = ops.exp(x)
    flat = ops.reshape(y, (6,))
    home = Tensor.zeros(spec((6,)))
    compiled = compile(graph, [y], bind={flat: None if late else home}, backend="reference")
    if late:
        compiled = compiled.rebind({flat: home})
    compiled.write(x, np.zeros((2, 3)))
    compiled.run()
    np.testing.assert_array_equal(home.numpy(), np.ones(6))
    assert compiled.tensor(flat).address == compiled.tensor(y).address == home.address


def test_a_part_of_a_root_is_not_bound() -> None:
    graph = SymbolicGraph()
    y = ops.exp(graph.input(spec((6,))))
    with pytest.raises(ShapeError, match="all of a root"):
        compile(graph, [y], bind={y[0:3]: Tensor.zeros(spec((3,)))})


def on(graph: SymbolicGraph, node: int) -> Symbol:
    return graph.input(replace(spec((4,)), device=Device("cpu", node)))


def test_devices_have_arenas_of_their_own() -> None:
    """y = 0.3 x on node 1, z = y + 3 on node 2: never in place, though the operator would allow it."""
    graph = SymbolicGraph()
    x, y, z = (on(graph, node) for node in range(3))
    graph.apply(Command(AFFINE, AffineAttrs(0.3, 0.0)), [x], [y])
    graph.apply(Command(AFFINE, AffineAttrs(1.0, 3.0)), [y], [z])
    compiled = compile(graph, [z], backend="reference")
    np.testing.assert_allclose(compiled({x: [1.21] * 4}, z)[0], 3.363, rtol=1e-6)
    assert len({compiled.tensor(symbol).address for symbol in (x, y, z)}) == 3
    assert compiled.memory().arenas == {"cpu:0": 64, "cpu:1": 64, "cpu:2": 64}
    assert compiled.memory().arena == 192


def chain(rows: int) -> tuple[Compiled, Symbol, Symbol]:
    graph = SymbolicGraph()
    x = graph.input(spec((rows, 16)))
    y = ops.reduce_sum(ops.exp(x) * 2.0, 1)
    return compile(graph, [y], backend="reference"), x, y


@pytest.mark.parametrize("debug", [False, True])
def test_a_smaller_shape_runs_within_the_arena_of_a_larger_one(monkeypatch: pytest.MonkeyPatch, debug: bool) -> None:
    monkeypatch.setattr(SETTINGS, "debug", debug)
    (large, x, y), (small, a, b) = chain(32), chain(5)
    large({x: np.zeros((32, 16))}, y)
    inside = small.in_arena_of(large)
    for _ in range(2):
        np.testing.assert_array_equal(inside({a: np.zeros((5, 16))}, b)[0], [32.0] * 5)
        np.testing.assert_array_equal(large({x: np.zeros((32, 16))}, y)[0], [32.0] * 32)
    assert inside.tensor(a).storage is large.tensor(x).storage


def test_a_larger_program_makes_the_arena_grow() -> None:
    (large, x, y), (small, a, b) = chain(32), chain(5)
    small({a: np.zeros((5, 16))}, b)
    inside = large.in_arena_of(small)
    for _ in range(2):
        np.testing.assert_array_equal(inside({x: np.zeros((32, 16))}, y)[0], [32.0] * 32)
        np.testing.assert_array_equal(small({a: np.zeros((5, 16))}, b)[0], [32.0] * 5)
    assert small.tensor(a).storage is inside.tensor(x).storage
    assert small.tensor(a).storage.nbytes == large.memory().arena


def test_before_the_first_run_the_arena_grows_to_the_largest_program() -> None:
    (large, x, y), (small, a, b) = chain(32), chain(5)
    inside = large.in_arena_of(small)
    np.testing.assert_array_equal(small({a: np.zeros((5, 16))}, b)[0], [32.0] * 5)
    np.testing.assert_array_equal(inside({x: np.zeros((32, 16))}, y)[0], [32.0] * 32)
    assert small.tensor(a).storage.nbytes == large.memory().arena


def test_a_cleared_program_runs_again_in_fresh_memory() -> None:
    compiled, x, y = chain(4)
    compiled({x: np.zeros((4, 16))}, y)
    before = compiled.tensor(x)
    compiled.clear()
    np.testing.assert_array_equal(compiled({x: np.zeros((4, 16))}, y)[0], [32.0] * 4)
    assert compiled.tensor(x).storage is not before.storage
