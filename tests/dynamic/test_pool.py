"""Memory of variables that are gone is that of the next ones."""

from __future__ import annotations

import numpy as np

from nnc import ops
from nnc.dynamic import DynamicGraph


def test_case_12_a_freed_variable_s_memory_is_taken_by_the_next() -> None:
    graph = DynamicGraph()
    wide, narrow = (graph.constant(np.ones(size, np.float32)) for size in (128, 64))
    a = ops.exp(wide)
    place = a.tensor.address
    del a
    assert ops.exp(narrow).tensor.address == place
    b, c = ops.exp(wide), ops.sin(wide)
    place = c.tensor.address
    assert place != b.tensor.address
    del b
    del c
    assert ops.cos(wide).tensor.address == place


def test_what_gradients_need_is_not_given_away() -> None:
    graph = DynamicGraph()
    x = graph.variable(np.linspace(-1.0, 1.0, 128, dtype=np.float32))
    y = ops.exp(x)
    place = y.tensor.address
    total = ops.reduce_sum(ops.square(y))
    del y
    assert ops.sin(x).tensor.address != place
    (slope,) = graph.backward([total], [x])
    np.testing.assert_allclose(slope.numpy(), 2 * np.exp(2 * x.numpy()), rtol=1e-5)
