"""Kernels and wishes that follow from sizes are those that are asked for at each size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple

import numpy as np
import pytest

from nnc import ops
from nnc.core.running.dispatch import DISPATCHER, Dispatcher
from nnc.core.values.exact import Exact
from nnc.core.values.sizes import SizeTrace
from nnc.core.values.spec import TensorSpec
from nnc.ops.convolutions.window import window_of
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.passes import simplify
from nnc.symbolic.sharing.sized_answers import KnownClaims
from nnc.symbolic.sharing.templates import GraphInstance, GraphTemplate

Build = Callable[[SymbolicGraph, int, int], Symbol]
SIZES = (
    (8, 30),
    (9, 31),
    (3, 64),
    (8, 25),
    (1, 97),
    (17, 48),
    (8, 500),
    (8, 508),
    (2, 40),
    (30, 30),
    (5, 200),
    (7, 26),
)


def given(graph: SymbolicGraph, *shape: int) -> Symbol:
    return graph.input(TensorSpec(shape))


def images(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    x = given(graph, n, m, m + 2, 16)
    x = ops.relu(ops.convolution(x, given(graph, 3, 3, 16, 32), window=window_of(3, padding=1)) + given(graph, 32))
    x = ops.relu(ops.convolution(x, given(graph, 3, 3, 32, 48), window=window_of(3, stride=2)))
    x = ops.convolution(x, given(graph, 5, 5, 1, 48), window=window_of(5, padding=2), groups=48)
    x = ops.max_pool(
        ops.swish(ops.convolution(x, given(graph, 1, 1, 48, 64), window=window_of(1))), (2, 2), window_of(2, stride=2)
    )
    return ops.reduce_mean(x, (1, 2))


def tokens(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    x = ops.layer_norm(given(graph, n, m, 32), given(graph, 32), given(graph, 32))
    q, k, v = (ops.gemm(ops.reshape(x, (n * m, 32)), given(graph, 32, 32)) for _ in range(3))
    q, k, v = (ops.transpose(ops.reshape(each, (n, m, 4, 8)), (0, 2, 1, 3)) for each in (q, k, v))
    y = ops.scaled_dot_product_attention(q, k, v, causal=True)
    y = ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (n, m, 32)) + x
    y = ops.softmax(ops.gelu(ops.gemm(ops.reshape(y, (n * m, 32)), given(graph, 32, 70))))
    return ops.concatenate((y, y * (1.0 / m)), 1)


def packed(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    """Weights that kernels would pack in each run."""
    x = ops.relu(ops.convolution(given(graph, n, m, m, 24), given(graph, 3, 3, 24, 70), window=window_of(3, padding=1)))
    y = ops.transpose(given(graph, 90, 70), (1, 0))
    return ops.tanh(ops.gemm(ops.reshape(x, (n * m * m, 70)), y) + given(graph, 90))


def rows(graph: SymbolicGraph, n: int, m: int) -> Symbol:
    x = given(graph, n, m)
    y = ops.matmul(ops.transpose(x, (1, 0)), ops.cumsum(x, 0))
    y = ops.slice_axis(ops.reshape(y, (m * m,)), 0, m, m * m) - ops.reduce_max(y)
    return ops.reduce_sum(ops.exp(ops.pad(y, (1,), (n,))), (0,), keepdims=True)


def drafted(build: Build) -> tuple[Callable[[int, int], GraphInstance | None], KnownClaims]:
    trace, graph = SizeTrace(), SymbolicGraph("sizes")
    simplify(graph, (build(graph, trace.read(8), trace.read(30)),))
    formulas, template = trace.close(), GraphTemplate.of(graph)

    def instance(n: int, m: int) -> GraphInstance | None:
        numbers = formulas.at((n, m))
        return None if numbers is None else template.instance(numbers)

    return instance, KnownClaims("")


@pytest.mark.turns(5)
@pytest.mark.parametrize("build", [images, tokens, rows])
def test_kernels_that_follow_from_sizes_are_those_that_are_asked_for(build: Build) -> None:
    instance_at, claims = drafted(build)
    followed = 0
    for sizes in SIZES:
        if (instance := instance_at(*sizes)) is None:
            continue
        for key, record in instance.graph.execs.items():
            claim = claims.claim(instance, key)
            inputs, outputs = instance.specs(key)
            asked = DISPATCHER.first(record.command, inputs, outputs)
            if claim is None:
                continue
            followed += 1
            kernel, other = claim.kernel, asked.kernel
            assert claim.backend is asked.backend
            assert Exact(kernel.generator) == Exact(other.generator)
            assert (kernel.results, kernel.words, kernel.inputs) == (other.results, other.words, other.inputs)
            assert (kernel.workspace_bytes, kernel.worker_bytes) == (other.workspace_bytes, other.worker_bytes)
            native, made = kernel.native(), other.native()
            assert (native.hash, native.workspace, native.scratch) == (made.hash, made.workspace, made.scratch)
            assert [astuple(phase) for phase in native.phases] == [astuple(phase) for phase in made.phases]
            np.testing.assert_array_equal(native.sizes, made.sizes)
    assert followed >= 3 * len(SIZES)


@pytest.mark.parametrize("build", [packed, tokens])
def test_wishes_that_follow_from_sizes_are_those_that_are_asked_for(build: Build) -> None:
    instance_at, claims = drafted(build)
    followed, wished = 0, 0
    for sizes in SIZES:
        if (instance := instance_at(*sizes)) is None:
            continue
        for key, record in instance.graph.execs.items():
            preferences = claims.preferences(instance, key)
            if preferences is not None:
                followed += 1
                wished += bool(preferences)
                assert preferences == DISPATCHER.preferences(record.command, *instance.specs(key))
    assert followed >= len(SIZES)
    assert wished >= (len(SIZES) if build is packed else 0)


def test_an_exec_that_was_changed_is_asked_again() -> None:
    instance_at, claims = drafted(rows)
    instance = instance_at(9, 31)
    assert instance is not None
    key = next(key for key, _ in instance.graph.execs.items() if claims.claim(instance, key) is not None)
    output = instance.graph.execs[key].outputs[0]
    record = instance.graph.tensors[output]
    instance.graph.tensors.replace(output, type(record)(record.spec, "other", record.alias))
    assert claims.claim(instance, key) is None


def test_an_exec_whose_outputs_are_not_what_its_command_makes_is_asked_with_its_check() -> None:
    trace, graph = SizeTrace(), SymbolicGraph("wrong")
    y = ops.relu(given(graph, trace.read(8), 30))
    record = graph.tensors[y.key]
    graph.tensors.replace(y.key, type(record)(TensorSpec((record.spec.shape[0], 31)), record.name, record.alias))
    formulas, template = trace.close(), GraphTemplate.of(graph)
    numbers = formulas.at((9,))
    assert numbers is not None
    assert KnownClaims("").of(template.instance(numbers)) == {}


def test_backends_are_asked_for_nothing_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    instance_at, claims = drafted(rows)
    known = [instance for n, m in ((9, 31), (10, 32)) if (instance := instance_at(n, m)) is not None][-1]
    graph, made = known.graph, claims.of(known)
    outputs = tuple(graph.symbol(record.outputs[0]) for key, record in graph.execs.items())[-1:]
    asked = compile(graph, outputs)
    assert made.keys() == set(graph.execs)
    monkeypatch.setattr(Dispatcher, "claim", lambda _, command, *specs: pytest.fail(f"{command.op.name} is asked for"))
    follows = compile(graph, outputs, claims=made)
    x = next(graph.symbol(key) for key in graph.tensors if graph.root(key) == key and not graph.writers(key))
    values = {x: np.random.default_rng(0).standard_normal(x.spec.shape, dtype=np.float32)}
    (result,) = follows(values, *outputs)
    monkeypatch.undo()
    np.testing.assert_array_equal(result, asked(values, *outputs)[0])
    assert follows.memory() == asked.memory()
