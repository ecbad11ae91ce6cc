"""Selection, addition and one-hot rows, and indices outside their axis."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import check, random

from nnc.backends.llvm.backend import LlvmBackend
from nnc.codegen.ir.builder import F16, F32, I64
from nnc.codegen.kernels.indexing.indexing import OneHot, Selection
from nnc.core.running.dispatch import Call
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError
from nnc.ops.indexing.indexing import INDEX_SELECT, SCATTER, SCATTER_ADD, AxisAttrs, ScatterAttrs, index_select
from nnc.ops.rules import infer
from nnc.symbolic import SymbolicGraph, compile

BACKEND = LlvmBackend()


@pytest.mark.parametrize("inner", [1, 5, 64, 300])
def test_rows_are_selected_and_added(inner: int) -> None:
    x, index = random((2, 9, inner)), np.random.default_rng(0).integers(0, 9, 40)
    added = random((2, 40, inner), seed=1)
    total = np.zeros((2, 9, inner), np.float32)
    for k, place in enumerate(index):
        total[:, place] += added[:, k]
    from_rows = Selection(F32, I64, 2, 9, 40, inner)
    check(from_rows, [x, index], [x[:, index]])
    check(Selection(F32, I64, 2, 9, 40, inner, adding=True), [added, index], [total])


@pytest.mark.parametrize("inner", [1, 70, 300])
def test_halves_are_added_in_f32_and_rounded_once(inner: int) -> None:
    added, index = np.ones((2, 9000, inner), np.float16), np.arange(9000) % 3
    # In f16 sums of ones end at 2048.
    total = np.full((2, 3, inner), 3000, np.float16)
    check(Selection(F16, I64, 2, 3, 9000, inner, adding=True), [added, index], [total])


def test_one_hot_rows_have_zeros_for_no_class() -> None:
    index = np.array([0, 3, -1, 4, 2**40, -(2**40)])
    wanted = np.zeros((6, 4), np.float32)
    wanted[0, 0] = wanted[1, 3] = 1
    check(OneHot(F32, I64, 6, 4), [index], [wanted])


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
@pytest.mark.parametrize("adding", [False, True])
def test_an_index_outside_its_axis_is_an_error(adding: bool, wrong: int) -> None:
    command = Command(SCATTER_ADD, ScatterAttrs(0, 3)) if adding else Command(INDEX_SELECT, AxisAttrs(0))
    x, named = Tensor.from_numpy(np.ones((3, 2), np.float32)), np.array([0, wrong, 2])
    index = Tensor.from_numpy(named)
    specs = (x.spec, index.spec)
    results = infer(command.op, command.attrs, specs)
    kernel, y = BACKEND.kernel(command, specs, results), Tensor.zeros(results[0])
    program = BACKEND.program([Call(kernel, (x, index), (y,))])
    with pytest.raises(IndexRangeError, match="outside its axis"):
        program()
    with pytest.raises(IndexRangeError):
        kernel.run((x, index), (y,), None)
    named[1] = 1
    index.copy_from(named)
    program()
    np.testing.assert_array_equal(y.numpy(), np.ones((3, 2), np.float32))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("whole_rows", [False, True])
def test_elements_are_put_in_the_place_of_others(in_place: bool, whole_rows: bool) -> None:
    x = Tensor.from_numpy(random((2, 9, 70)))
    index = np.random.default_rng(0).integers(0, 9, (2, 3, 70))
    if whole_rows:
        index[0], index[1, 1:] = index[0, :, :1], index[1, 1:, :1]
    updates = random((2, 3, 70), seed=1)
    wanted = x.numpy().copy()
    np.put_along_axis(wanted, index, updates, 1)
    inputs = (x, Tensor.from_numpy(index), Tensor.from_numpy(updates))
    y = x if in_place else Tensor.zeros(x.spec)
    command = Command(SCATTER, AxisAttrs(1))
    kernel = BACKEND.kernel(command, tuple(one.spec for one in inputs), (y.spec,))
    BACKEND.program([Call(kernel, inputs, (y,))])()
    np.testing.assert_array_equal(y.numpy(), wanted)


@pytest.mark.parametrize("backend", ["reference", ""])
def test_an_index_outside_its_axis_is_an_error_where_there_is_nothing_to_read(backend: str) -> None:
    graph = SymbolicGraph()
    x, index = graph.input(spec((0, 21))), graph.input(spec((1,), "i64"))
    y = index_select(x, index, 1)
    with pytest.raises(IndexRangeError, match="< 21"):
        compile(graph, [y], backend=backend)({x: np.zeros((0, 21), np.float32), index: [21]}, y)
