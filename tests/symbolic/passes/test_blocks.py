"""Blocks: what stays from run to run is kept as kernels read it; values keep their bits, and the plan its check."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.concrete import TuneCache, TuneOptions
from nnc.core.running.dispatch import DISPATCHER, Specs
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Blocked, Layout, TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import LayoutError
from nnc.ops.movement.layout import CONVERT_LAYOUT, convert_layout
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults
from nnc.symbolic.passes import assign_blocks, assign_layouts, blocks, precompute
from nnc.symbolic.text import dump, parse

llvm = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="LLVM is absent")


def names(graph: SymbolicGraph) -> list[str]:
    return [graph.execs[key].command.op.name for key in graph.execs.toposort()]


def product(columns: int = 100) -> tuple[SymbolicGraph, Symbol, Symbol, Symbol]:
    graph = SymbolicGraph()
    x, w = graph.input(spec((64, 130)), "x"), graph.input(spec((columns, 130)), "w")
    return graph, x, w, ops.gemm(x, w, transpose_b=True)


@llvm
def test_a_conversion_moves_out_with_the_weights() -> None:
    graph, x, w, y = product()
    values = [np.random.default_rng(0).standard_normal(one.shape, dtype=np.float32) for one in (x, w)]
    given = {w: Tensor.from_numpy(values[1])}
    (want,) = compile(graph, [y], given=given)({x: values[0]}, y)
    assert assign_blocks(graph, [y], [w]) == {"blocked": 1, "readings": 1}
    assert names(graph) == ["convert_layout", "gemm"]
    before = precompute(graph, [w], [y])
    assert faults(graph) == faults(before.graph) == ()
    assert (names(graph), names(before.graph)) == (["gemm"], ["convert_layout"])
    ((v, inner),) = before.results.items()
    laid = Tensor.empty(v.spec)
    compile(before.graph, [inner], given={before.parameters[w]: given[w]}, bind={inner: laid}).run()
    compiled = compile(graph, [y], given={v: laid})
    assert compiled({x: values[0]}, y)[0].tobytes() == want.tobytes()
    assert compiled.memory().bound == v.spec.nbytes
    assert dump(parse(dump(graph))) == dump(graph)


@llvm
def test_readers_share_blocks_when_all_of_them_want_the_same() -> None:
    graph, x, w, y = product()
    z = ops.gemm(x * 2.0, w, transpose_b=True)
    assert assign_blocks(graph, [y, z], [w]) == {"blocked": 1, "readings": 2}
    assert names(graph).count("convert_layout") == 1


@llvm
def test_parts_of_weights_have_blocks_of_their_own() -> None:
    graph, x, w, _ = product(192)
    parts = [ops.gemm(x, w[96 * part : 96 * part + 96], transpose_b=True) for part in range(2)]
    graph.remove_exec(graph.writers(product_of(graph, 192).key)[0])
    assert assign_blocks(graph, parts, [w])["readings"] == 2
    assert names(graph).count("convert_layout") == 2


def product_of(graph: SymbolicGraph, columns: int) -> Symbol:
    """The product with so many columns."""
    found = (key for key, record in graph.tensors.items() if record.spec.shape == (64, columns))
    return graph.symbol(next(found))


def test_weights_that_somebody_wants_or_reads_in_order_stay() -> None:
    for backend in ("", "reference"):
        graph, x, w, y = product()
        assert not assign_blocks(graph, [y, w], [w], backend)
        assert not assign_blocks(graph, [y], [], backend)
        z = ops.gemm(x, w * 2.0, transpose_b=True)
        assert not assign_blocks(graph, [y, z], [w], backend)
        assert "convert_layout" not in names(graph)


def test_the_reference_wants_no_blocks() -> None:
    graph, _, w, y = product()
    assert not assign_blocks(graph, [y], [w], "reference")


@llvm
def test_blocks_that_are_mostly_empty_are_not_made() -> None:
    graph, _, w, y = product(3)
    assert not assign_blocks(graph, [y], [w])


def test_to_blocks_and_back_is_nothing() -> None:
    graph = SymbolicGraph()
    w = graph.input(spec((5, 7)), "w")
    layout = Blocked((5, 7), 1, 4)
    y = ops.exp(convert_layout(convert_layout(w, layout), Layout.NHWC))
    assert assign_layouts(graph, [y])
    assert CONVERT_LAYOUT.name not in names(graph)


def test_gradients_pass_through_blocks() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((3, 5)), "x"), graph.input(spec((5, 7)), "w")
    layout = Blocked((5, 7), 1, 4)
    values = [np.random.default_rng(0).standard_normal(one.shape, dtype=np.float32) for one in (x, w)]
    found = []
    for weights in (w, convert_layout(w, layout)):
        loss = ops.reduce_sum(ops.square(ops.gemm(x, weights)), (0, 1))
        gradients = backward(graph, [loss], [x, w])
        compiled = compile(graph, gradients, backend="reference")
        found.append(compiled(dict(zip((x, w), values, strict=True)), *gradients))
    for plain, blocked in zip(*found, strict=True):
        np.testing.assert_allclose(plain, blocked, rtol=1e-6)


def test_operators_that_know_axes_refuse_blocks() -> None:
    graph = SymbolicGraph()
    layout = Blocked((5, 7), 1, 4)
    y = convert_layout(graph.input(spec((5, 7)), "w"), layout)
    assert ops.exp(y).spec == y.spec == TensorSpec((2, 5, 4), layout=layout)
    with pytest.raises(LayoutError, match=r"layout 5x7/4; need shape \[2, 5, 4\].*convert_layout\(\) to NHWC"):
        ops.reduce_sum(y, (0,))
    with pytest.raises(LayoutError, match=r"need \[5, 7\] in NHWC"):
        convert_layout(graph.input(spec((7, 5))), layout)


@llvm
@pytest.mark.parametrize("faster", [True, False])
def test_with_a_tuning_the_clock_decides(faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(command: AnyCommand, others: Specs, instead_of: Specs, *rest: object) -> bool:
        asked.append((str(others[1]), str(instead_of[1])))
        return faster

    monkeypatch.setattr(blocks, "is_faster", measured)
    graph, _, w, y = product()
    fired = assign_blocks(graph, [y], [w], "", TuneOptions())
    assert fired == ({"blocked": 1, "readings": 1} if faster else {})
    ((blocked, plain),) = asked
    assert blocked.endswith("x130")
    assert plain == "f32[100, 130]"


@llvm
def test_a_tuned_graph_has_the_values_of_an_untuned_one() -> None:
    graph, x, w, y = product()
    assign_blocks(graph, [y], [w], "", TuneOptions(cache=TuneCache(None), rounds=1))
    values = {one: np.random.default_rng(0).standard_normal(one.shape, dtype=np.float32) for one in (x, w)}
    (found,) = compile(graph, [y])(values, y)
    np.testing.assert_allclose(found, values[x] @ values[w].T, rtol=1e-4, atol=1e-4)
