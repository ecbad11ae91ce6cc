"""Graph text: goldens, round trips, goldens of each pass, Graphviz, and refusal of anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.evaluation import values_of
from tests.symbolic.programs import Program, programs, run
from tests.symbolic.test_serialize import network

from nnc import ops
from nnc.core.command import Command
from nnc.core.device import Device
from nnc.core.spec import Layout, TensorSpec, spec
from nnc.errors import FormatError
from nnc.ops.copy import COPY
from nnc.ops.rules import NoAttrs
from nnc.symbolic import SymbolicGraph, backward
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dot, dump, parse

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def test_golden() -> None:
    graph = SymbolicGraph("g")
    x, w = graph.input(spec((4, 3)), "x"), graph.input(spec((3, 2)), "w")
    whole = graph.input(spec((4, 4)), "whole")
    y = ops.relu(x @ w).named("y")
    graph.apply(Command(COPY, NoAttrs()), [y], [whole[:, 0:2]], name="left half")
    graph.apply(Command(COPY, NoAttrs()), [y * 2.0], [whole[:, 2:4]], name="right")
    ops.reduce_sum(whole[1:3], 0)
    text = dump(graph, origins=False)
    assert text == (
        "graph g\n"
        "  %0 x: f32[4, 3] = input\n"
        "  %1 w: f32[3, 2] = input\n"
        "  %2 whole: f32[4, 4] = memory\n"
        "  %3: f32[4, 2] = gemm <- %0, %1, –\n"
        "  %4 y: f32[4, 2] = relu <- %3\n"
        "  %5: f32[4, 2] = part of %2 at 0 by [4, 1]\n"
        '  %5 = copy as "left half" <- %4\n'
        "  %6: f32[4, 2] = affine(scale=2.0) <- %4\n"
        "  %7: f32[4, 2] = part of %2 at 2 by [4, 1]\n"
        "  %7 = copy as right <- %6\n"
        "  %8: f32[2, 4] = part of %2 at 4 by [4, 1]\n"
        "  %9: f32[4] = reduce_sum(axes=[0]) <- %8"
    )
    assert dump(parse(text)) == text


def test_round_trip_keeps_origins_and_values() -> None:
    graph, inputs, outputs = network()
    outputs[0].named("loss")
    text = dump(graph)
    assert "# " in text
    again = parse(text)
    assert dump(again) == text
    assert dump(load(save(again))) == text
    names = [record.command for _, record in again.execs.items()]
    assert names == [graph.execs[key].command for key in graph.execs.toposort()]
    assert [again.tensors[key].name for key in again.inputs_of(again.execs)] == [symbol.name for symbol in inputs]
    values = [np.random.default_rng(1).standard_normal(symbol.shape) for symbol in inputs]
    ends = [again.symbol(key) for key, record in again.tensors.items() if record.name == "loss"]
    read = [again.symbol(key) for key in again.inputs_of(again.execs)]
    got = values_of(again, ends, dict(zip(read, values, strict=True)))
    want = values_of(graph, [outputs[0]], dict(zip(inputs, values, strict=True)))
    np.testing.assert_array_equal(got[0], want[0])


def test_specs_and_names_of_every_kind() -> None:
    graph = SymbolicGraph('a "graph"')
    for name, one in (
        ("input", spec(())),
        ("with # and , =", spec((0, 3), "bf16")),
        ("layer1/w.0-b", TensorSpec((1, 2, 3, 4), layout=Layout.NCHW)),
        ("größe", TensorSpec((2,), device=Device("cuda", 1))),
        ("last", TensorSpec((2, 1, 1), layout=Layout.NCHW, device=Device("cuda", 0))),
    ):
        graph.input(one, name)
    again = parse(dump(graph))
    assert again.name == graph.name
    assert [(r.name, r.spec) for _, r in again.tensors.items()] == [(r.name, r.spec) for _, r in graph.tensors.items()]


def test_a_fused_expression_and_numbers_that_are_none() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,)), "x")
    y = ops.maximum(ops.exp(x) * 2.0, ops.fill_like(x, -np.inf))
    simplify(graph, [y], [Pass.GROUPS])
    text = dump(graph)
    assert dump(parse(text)) == text
    values = {x: np.array([1.0, 2.0, 3.0])}
    again = parse(text)
    (read,) = again.inputs_of(again.execs)
    (writer,) = again.execs
    outputs = [again.symbol(again.execs[writer].outputs[0])]
    got = values_of(again, outputs, {again.symbol(read): values[x]})
    np.testing.assert_array_equal(got[0], values_of(graph, [y], values)[0])


def passed(one: Pass) -> str:
    """What a pass leaves of one small graph that has something for each of them."""
    graph = SymbolicGraph()
    x, w, f = graph.input(spec((8, 2)), "x"), graph.input(spec((2, 2)), "w"), graph.input(spec((2,)), "f")
    product = ops.gemm(x, w) * f
    ops.exp(product)
    y = ops.contiguous(product) + ops.exp(ops.scalar_like(x, 0.0)) + ops.relu(x + 0.0) + ops.relu(x + 0.0)
    simplify(graph, [y], [one])
    return dump(graph, origins=False)


AFTER: dict[Pass, str] = {
    Pass.COMMON_SUBEXPRESSIONS: """
  %3: f32[8, 2] = gemm <- %0, %1, –
  %4: f32[8, 2] = multiply <- %3, %2
  %5: f32[8, 2] = copy <- %4
  %6: f32[] = fill(value=0.0, spec="f32[]") <-
  %7: f32[] = exp <- %6
  %8: f32[8, 2] = add <- %5, %7
  %9: f32[8, 2] = affine <- %0
  %10: f32[8, 2] = relu <- %9
  %11: f32[8, 2] = add <- %8, %10
  %12: f32[8, 2] = add <- %11, %10
""",
    Pass.DATA_TRANSFER: """
  %3: f32[8, 2] = gemm <- %0, %1, –
  %4: f32[8, 2] = multiply <- %3, %2
  %5: f32[] = fill(value=0.0, spec="f32[]") <-
  %6: f32[] = exp <- %5
  %7: f32[8, 2] = add <- %4, %6
  %8: f32[8, 2] = affine <- %0
  %9: f32[8, 2] = relu <- %8
  %10: f32[8, 2] = add <- %7, %9
  %11: f32[8, 2] = affine <- %0
  %12: f32[8, 2] = relu <- %11
  %13: f32[8, 2] = add <- %10, %12
""",
    Pass.FUSION: """
  %3: f32[8, 2] = gemm <- %0, %1, –
  %4: f32[8, 2] = multiply <- %3, %2
  %5: f32[8, 2] = copy <- %4
  %6: f32[] = fill(value=0.0, spec="f32[]") <-
  %7: f32[] = exp <- %6
  %8: f32[8, 2] = add <- %5, %7
  %9: f32[8, 2] = affine <- %0
  %10: f32[8, 2] = relu <- %9
  %11: f32[8, 2] = add <- %8, %10
  %12: f32[8, 2] = affine <- %0
  %13: f32[8, 2] = relu <- %12
  %14: f32[8, 2] = add <- %11, %13
""",
    Pass.PRUNING: """
  %3: f32[8, 2] = gemm <- %0, %1, –
  %4: f32[8, 2] = multiply <- %3, %2
  %5: f32[8, 2] = copy <- %4
  %6: f32[] = fill(value=0.0, spec="f32[]") <-
  %7: f32[] = exp <- %6
  %8: f32[8, 2] = add <- %5, %7
  %9: f32[8, 2] = affine <- %0
  %10: f32[8, 2] = relu <- %9
  %11: f32[8, 2] = add <- %8, %10
  %12: f32[8, 2] = affine <- %0
  %13: f32[8, 2] = relu <- %12
  %14: f32[8, 2] = add <- %11, %13
""",
    Pass.ALGEBRA: """
  %3: f32[8, 2] = gemm <- %0, %1, –
  %4: f32[8, 2] = multiply <- %3, %2
  %5: f32[8, 2] = copy <- %4
  %6: f32[] = fill(value=0.0, spec="f32[]") <-
  %7: f32[] = exp <- %6
  %8: f32[8, 2] = add <- %5, %7
  %9: f32[8, 2] = relu <- %0
  %10: f32[8, 2] = add <- %8, %9
  %11: f32[8, 2] = relu <- %0
  %12: f32[8, 2] = add <- %10, %11
""",
    Pass.GROUPS: """
  %3: f32[8, 2] = gemm <- %0, %1, –
  %4: f32[] = fill(value=0.0, spec="f32[]") <-
  %5: f32[] = exp <- %4
  %6: f32[8, 2] = fused_pointwise(inputs=4, steps=["multiply 2 1", "copy 4", "add 5 3", "affine 0", \
"relu 7", "add 6 8", "affine 0", "relu 10", "add 9 11"]) <- %0, %2, %3, %5
""",
    Pass.CONSTANTS: """
  %3: f32[8, 2] = gemm <- %0, %1, –
  %4: f32[8, 2] = multiply <- %3, %2
  %5: f32[8, 2] = copy <- %4
  %6: f32[8, 2] = affine <- %0
  %7: f32[8, 2] = relu <- %6
  %8: f32[8, 2] = affine <- %0
  %9: f32[8, 2] = relu <- %8
  %10: f32[] = fill(value=1.0, spec="f32[]") <-
  %11: f32[8, 2] = add <- %5, %10
  %12: f32[8, 2] = add <- %11, %7
  %13: f32[8, 2] = add <- %12, %9
""",
    Pass.BATCH_NORM: """
  %3: f32[] = fill(value=0.0, spec="f32[]") <-
  %4: f32[] = exp <- %3
  %5: f32[8, 2] = affine <- %0
  %6: f32[8, 2] = relu <- %5
  %7: f32[8, 2] = affine <- %0
  %8: f32[8, 2] = relu <- %7
  %9: f32[2, 2] = multiply <- %1, %2
  %10: f32[8, 2] = gemm <- %0, %9, –
  %11: f32[8, 2] = copy <- %10
  %12: f32[8, 2] = add <- %11, %4
  %13: f32[8, 2] = add <- %12, %6
  %14: f32[8, 2] = add <- %13, %8
""",
}
# No branches, nothing to do but to prune.
AFTER[Pass.BRANCHES] = AFTER[Pass.PRUNING]


@pytest.mark.parametrize("one", Pass, ids=lambda one: one.value.replace(" ", "-"))
def test_passes_leave_a_text_that_parses_back(one: Pass) -> None:
    text = passed(one)
    assert dump(parse(text)) == text
    assert text.splitlines()[4:] == AFTER[one].strip("\n").splitlines()


def test_graphviz() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,)), "x")
    ops.exp(ops.sin(x))
    assert dot(graph) == ('digraph {\n  n0 [label="sin"];\n  n1 [label="exp"];\n  n0 -> n1 [label="%1: f32[3]"];\n}')


HEAD = "graph g\n  %0 x: f32[4] = input\n"
DAMAGED = {
    "empty": "",
    "no head": "net\n",
    "unknown operator": HEAD + "  %1: f32[4] = unheard_of <- %0",
    "unknown attribute": HEAD + "  %1: f32[4] = exp(scale=1.0) <- %0",
    "bad value": HEAD + '  %1: f32[4] = affine(scale="x") <- %0',
    "no json": HEAD + "  %1: f32[4] = affine(scale=) <- %0",
    "refused value": HEAD + "  %1: f32[4] = fused_pointwise(inputs=0, steps=[]) <- %0",
    "later symbol": HEAD + "  %1: f32[4] = exp <- %2",
    "gap": HEAD + "  %2: f32[4] = exp <- %0",
    "twice": HEAD + "  %0 = exp <- %0",
    "wrong spec": HEAD + "  %1: f32[5] = exp <- %0",
    "no such type": HEAD + "  %1: f33[4] = exp <- %0",
    "bad shape": HEAD + "  %1: f32[4,] = exp <- %0",
    "bad device": HEAD + "  %1: f32[4]@tpu:0 = exp <- %0",
    "outside": HEAD + "  %1: f32[4] = part of %0 at 1 by [1]",
    "rest": HEAD + "  %1: f32[4] = exp <- %0 and more",
    "two inputs": HEAD + "  %1: f32[4], %2: f32[4] = input",
    "no arrow": HEAD + "  %1: f32[4] = exp",
    "no sign": HEAD + "  %1: f32[4]",
    "bad name": HEAD + "  %1 !: f32[4] = exp <- %0",
    "written by two": HEAD + "  %1: f32[4] = exp <- %0\n  %1 = sin <- %0",
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse(text)


def test_the_line_is_named() -> None:
    with pytest.raises(FormatError, match="line 3"):
        parse(HEAD + "  %1: f32[4] = exp")


@EXAMPLES
@given(programs())
def test_random_programs(program: Program) -> None:
    graph = SymbolicGraph()
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    _, wanted = run(program, symbols)
    backward(graph, wanted, symbols)
    text = dump(graph)
    again = parse(text)
    assert dump(again) == text
    assert [record.command for _, record in again.execs.items()] == [
        graph.execs[key].command for key in graph.execs.toposort()
    ]
