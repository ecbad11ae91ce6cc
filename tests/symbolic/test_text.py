"""Graph text: goldens, round trips, goldens of each pass, Graphviz, and refusal of anything else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.evaluation import values_of
from tests.symbolic.programs import Program, programs, run
from tests.symbolic.test_serialize import network

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.spec import Blocked, Layout, TensorSpec, spec
from nnc.errors import FormatError
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, while_loop
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dot, dump, parse

CONTROLLED = Path(__file__).parent / "goldens" / "controlled.txt"
EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def test_golden() -> None:
    graph = SymbolicGraph("g")
    x, w = graph.input(spec((4, 3)), "x"), graph.input(spec((3, 2)), "w")
    whole = graph.input(spec((4, 4)), "whole")
    y = ops.relu(x @ w).named("y")
    graph.apply(Command(contiguous, NoAttrs()), [y], [whole[:, 0:2]], name="left half")
    graph.apply(Command(contiguous, NoAttrs()), [y * 2.0], [whole[:, 2:4]], name="right")
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
        ("blocks", TensorSpec((4, 23, 3, 2), layout=Blocked((3, 3, 5, 8), 3, 3, 2, 2))),
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


def test_graphviz() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,)), "x")
    ops.exp(ops.sin(x))
    assert dot(graph) == (
        'digraph {\n  n0 [label="sin"];\n  n1 [label="exp"];\n  n0 -> n1 [label="%1 sin: f32[3]"];\n}'
    )


def controlled() -> tuple[SymbolicGraph, Symbol, Symbol]:
    """A branch in a loop in a loop, decided by symbols, with a view of a carried value and rows."""
    graph = SymbolicGraph("c")
    x0 = graph.input(spec((3,)), "x0")
    with while_loop(graph, at_most=4) as outer:
        x = outer.carry(x0, "x")
        with while_loop(outer.body, CountBelow(2)) as inner:
            z = inner.carry(x)
            (y,) = case_of(inner.body, inner.count, [lambda z: z * x0], [z], bypass=[z[::-1]])
            inner.next(z, y)
        outer.next(x, inner.result(z))
        outer.go_on_while(ops.less(outer.count, ops.scalar_like(outer.count, 3)))
    return graph, x0, ops.reduce_sum(outer.rows(x), 0).named("y")


def test_bodies_are_blocks_below_their_exec() -> None:
    graph, x0, y = controlled()
    text = dump(graph, origins=False)
    assert f"{text}\n" == CONTROLLED.read_text(encoding="utf-8")
    again = parse(text)
    assert dump(again, origins=False) == text
    assert save(again) == save(parse(dump(load(save(again)))))
    (end,) = (again.symbol(key) for key, record in again.tensors.items() if record.name == "y")
    values = np.array([0.5, 1.5, 2.0])
    got = values_of(again, [end], {again.symbol(again.inputs_of(again.execs)[0]): values})
    np.testing.assert_array_equal(got[0], values_of(graph, [y], {x0: values})[0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    branches 0 (", "    branches 1 (", "blocks in order"),
        ("    otherwise (", "    branches 0 (", "blocks in order"),
        ("    body (", "   body (", "an indent"),
        ("    body (", "              body (", "an indent"),
        ("body (%1, ", "body (%99, ", "a symbol of a line above"),
        ("body (%1, ", "body %1, ", "an attribute|whole number"),
        ('"count": ', '"number": ', "."),
        ("    otherwise (", "    other (", "."),
        (") -> (", ") to (", "->"),
    ],
)
def test_damaged_blocks_are_refused(old: str, new: str, message: str) -> None:
    text = dump(controlled()[0], origins=False)
    with pytest.raises(FormatError, match=message):
        parse(text.replace(old, new, 1) if old in text else text.replace("count=", "number=", 1))


def test_a_block_without_an_exec_is_refused() -> None:
    with pytest.raises(FormatError, match="line 3.*block below"):
        parse(HEAD + "    body (%0) -> (%0)")


def test_a_python_function_is_shown_and_cannot_be_read() -> None:
    graph = SymbolicGraph()
    x0 = graph.input(spec((3,)))
    with while_loop(graph) as loop:
        x = loop.carry(x0)
        loop.next(x, ops.sin(x))
        loop.go_on_while(lambda count: bool(count.numpy() < 3), loop.count)
    assert re.search('"function": "python [^"]*<lambda>"', dump(graph))
    with pytest.raises(FormatError, match="line 3.*Python function"):
        parse(dump(graph))
    with pytest.raises(FormatError, match=r"while: got the Python function .*test_text\.py"):
        save(graph)


def test_bodies_are_clusters() -> None:
    graph = SymbolicGraph()
    x0 = graph.input(spec((3,)), "x")
    with while_loop(graph, CountBelow(2)) as loop:
        x = loop.carry(x0)
        loop.next(x, ops.sin(x))
    ops.exp(loop.result(x))
    assert dot(graph).splitlines() == [
        "digraph {",
        '  n0 [label="while"];',
        '  n1 [label="exp"];',
        '  n0 -> n1 [label="%2 while: f32[3]"];',
        "  subgraph cluster_n0_0_ {",
        '    label="while 0: body";',
        '    n0_0_0 [label="sin"];',
        "  }",
        "}",
    ]


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
