"""Concatenations whose inputs are computed where they lie in the output, as far as the plan is no larger for it."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.core.values.spec import Shape, spec
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile

pytestmark = pytest.mark.usefixtures("debug")


def compiled_join(shape: Shape, axis: int, **options: object) -> tuple[Compiled, Symbol, list[Symbol], Symbol]:
    """y = exp(concatenate(sin(x), tanh(x), x)), in a plan of which every part is computed but the last."""
    graph = SymbolicGraph()
    x = graph.input(spec(shape))
    parts = [ops.sin(x), ops.tanh(x), x]
    y = ops.exp(ops.concatenate(parts, axis))
    return compile(graph, [y], backend="reference", **options), x, parts, y  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(("shape", "axis", "copies"), [((4, 16), 0, 2), ((1, 4, 16), 1, 2), ((4, 16), 1, 0)])
@pytest.mark.parametrize("streams", [1, 2])
def test_parts_without_gaps_are_computed_in_place(shape: Shape, axis: int, copies: int, streams: int) -> None:
    compiled, x, parts, y = compiled_join(shape, axis, streams=streams)
    value = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    want = np.exp(np.concatenate([np.sin(value), np.tanh(value), value], axis))
    for _ in range(2):
        np.testing.assert_allclose(compiled({x: value}, y)[0], want, rtol=1e-6)
    statement = compiled.memory()
    assert (statement.copies_saved, statement.copied_bytes_saved) == (copies, copies * 4 * 16 * 4)
    if copies:
        first, second, _ = (compiled.tensor(part).address for part in parts)
        assert (first, second) == (compiled.tensor(y).address, first + parts[0].spec.nbytes)


def test_a_part_within_a_part() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2, 8)))
    inner = ops.concatenate([ops.sin(x), ops.tanh(x)], 0)
    y = ops.concatenate([ops.exp(x), inner], 0)
    compiled = compile(graph, [y], backend="reference")
    value = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    want = np.concatenate([np.exp(value), np.sin(value), np.tanh(value)])
    np.testing.assert_allclose(compiled({x: value}, y)[0], want, rtol=1e-6)
    # The exponential takes the place of the input.
    assert compiled.memory().copies_saved == 3
    assert compiled.tensor(inner).address == compiled.tensor(y).address + 64


def test_what_is_read_later_or_wanted_or_given_stays_apart() -> None:
    graph = SymbolicGraph()
    x, given = graph.input(spec((4, 4))), graph.input(spec((4, 4)))
    kept, late = ops.sin(x), ops.tanh(x)
    joined = ops.concatenate([kept, late, given, late], 0)
    y = ops.exp(joined) @ late
    compiled = compile(graph, [y, kept], backend="reference")
    values = {x: np.full((4, 4), 0.5, np.float32), given: np.ones((4, 4), np.float32)}
    sine, tangent = np.sin(values[x]), np.tanh(values[x])
    got = compiled(values, y, kept)
    want = np.exp(np.concatenate([sine, tangent, values[given], tangent])) @ tangent
    np.testing.assert_allclose(got[0], want, rtol=1e-5)
    np.testing.assert_allclose(got[1], sine, rtol=1e-6)
    assert compiled.memory().copies_saved == 0


def test_the_plan_decides() -> None:
    """The first part is small and early; the whole output would be there while the wide tensor is."""
    graph = SymbolicGraph()
    x = graph.input(spec((1, 64)))
    early = ops.sin(x)
    wide = ops.broadcast_to(ops.reshape(ops.tanh(x), (64, 1)), (64, 64))
    late = ops.affine(ops.broadcast_to(ops.reduce_sum(wide, 1, keepdims=True), (64, 64)), 0.5)
    y = ops.concatenate([early, late], 0)
    compiled = compile(graph, [y], backend="reference")
    memory = compiled.memory()
    assert compiled.planned.lives.in_place == {} or memory.arena == memory.lower_bound
    value = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 64)
    got = compiled({x: value}, y)[0]
    np.testing.assert_allclose(got[0], np.sin(value[0]), rtol=1e-6)
    np.testing.assert_allclose(got[1:], np.broadcast_to(32 * np.tanh(value).T, (64, 64)), rtol=1e-5)
