"""Convolutions over three axes: the same values from convolutions of images, where nothing native serves the others."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.spec import spec
from nnc.ops.convolutions.window import Window
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults
from nnc.symbolic.passes import simplify

llvm = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="LLVM is absent")

WINDOWS = {
    "plain": ((3, 2, 2), Window((1, 1, 1), ((0, 0), (0, 0), (0, 0)), (1, 1, 1))),
    "borders": ((3, 3, 3), Window((1, 1, 1), ((1, 1), (1, 0), (0, 2)), (1, 1, 1))),
    "strides and dilations": ((2, 3, 1), Window((2, 1, 2), ((1, 0), (1, 1), (0, 0)), (2, 2, 1))),
    "one plane": ((1, 3, 3), Window((2, 1, 1), ((0, 0), (1, 1), (1, 1)), (1, 1, 1))),
}


def names(graph: SymbolicGraph) -> list[str]:
    return [graph.execs[key].command.op.name for key in graph.execs.toposort()]


def check(graph: SymbolicGraph, y: Symbol, backend: str = "") -> list[str]:
    """Values before and behind the passes agree; what runs then."""
    rng = np.random.default_rng(0)
    roots = [key for key, one in graph.tensors.items() if one.alias is None and not graph.writers(key)]
    given = {graph.symbol(key): rng.standard_normal(graph.tensors[key].spec.shape, np.float32) for key in roots}
    (want,) = compile(graph, [y], backend="reference")(given, y)
    simplify(graph, [y], backend=backend)
    assert faults(graph) == ()
    compiled = compile(graph, [y], backend=backend)
    np.testing.assert_allclose(compiled(given, y)[0], want, rtol=1e-5, atol=1e-5)
    return names(graph)


@llvm
@pytest.mark.parametrize("name", list(WINDOWS))
@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_convolution_of_volumes_is_one_of_images(name: str, is_wanted: bool) -> None:
    kernel, window = WINDOWS[name]
    graph = SymbolicGraph()
    x, w, bias = (graph.input(spec(shape)) for shape in ((2, 5, 7, 6, 4), (*kernel, 4, 8), (8,)))
    y = ops.convolution(x, w, bias, window=window)
    made = check(graph, y if is_wanted else ops.reduce_sum(ops.relu(y) * 2.0, axes=(1, 2, 3)))
    heads = [key for key, one in graph.execs.items() if one.command.op.name in ("convolution", "fused_output")]
    assert [graph.tensors[graph.execs[key].outputs[0]].spec.rank for key in heads] == [4]
    assert ("fused_output" in made) is not is_wanted


@llvm
@pytest.mark.parametrize("name", list(WINDOWS))
def test_gradients_of_volumes_are_those_of_images(name: str) -> None:
    kernel, window = WINDOWS[name]
    graph = SymbolicGraph()
    x, w = (graph.input(spec(shape)) for shape in ((2, 5, 7, 6, 4), (*kernel, 4, 8)))
    loss = ops.reduce_sum(ops.square(ops.convolution(x, w, window=window)))
    rng = np.random.default_rng(0)
    given = {one: rng.standard_normal(one.shape, np.float32) for one in (x, w)}
    found = backward(graph, [loss], [x, w])
    want = compile(graph, found, backend="reference")(given, *found)
    simplify(graph, found)
    assert faults(graph) == ()
    for one, other in zip(compile(graph, found)(given, *found), want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    assert [str(claim).split()[0] for claim in compile(graph, found).report()].count("reference") == 0


@llvm
def test_groups_stay_as_they_are() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((1, 4, 5, 5, 4))), graph.input(spec((3, 3, 3, 2, 4)))
    window = WINDOWS["plain"][1]
    assert check(graph, ops.convolution(x, w, window=window, groups=2)) == ["convolution"]


def test_whoever_asks_for_the_reference_gets_its_kernel() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((1, 4, 5, 5, 4))), graph.input(spec((3, 3, 3, 4, 4)))
    assert check(graph, ops.convolution(x, w, window=WINDOWS["plain"][1]), "reference") == ["convolution"]
