"""Layout: conversions cancel where they meet, stay at the borders, and values and gradients stay what they were."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.symbolic.interpreter import interpret
from tests.symbolic.passes.equality import check, named
from tests.symbolic.programs import Program, programs, run

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import Layout, TensorSpec, spec
from nnc.graph import Op
from nnc.ops.convolutions.window import window_of
from nnc.ops.movement.layout import layout_permutation
from nnc.ops.operators import OPERATORS
from nnc.ops.permutation import PERMUTED, compose, identity, inverse
from nnc.ops.rules import example_of, infer
from nnc.symbolic import Symbol, SymbolicGraph, backward
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.text import dump

EXAMPLES = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
CONVERSIONS = ("transpose", "convert_layout")

Change = Callable[[Symbol], Symbol]


def transposed(x: Symbol) -> tuple[Symbol, Change]:
    """Channels last, and the way back, as permutations."""
    return ops.transpose(x, LAST), lambda y: ops.transpose(y, FIRST)


def converted(x: Symbol) -> tuple[Symbol, Change]:
    """Channels last, and the way back, as changes of the layout."""
    return ops.convert_layout(x, Layout.NHWC), lambda y: ops.convert_layout(y, Layout.NCHW)


class ChannelsFirst:
    """A network with channels first: each operator that wants them last stands between two conversions."""

    def __init__(self, change: Callable[[Symbol], tuple[Symbol, Change]]) -> None:
        self.change = change
        self.graph = SymbolicGraph("net")
        self.x = self.graph.input(spec((2, 8, 8, 3) if change is converted else (2, 3, 8, 8)), "x")
        self.parameters: list[Symbol] = []

    def parameter(self, *shape: int) -> Symbol:
        self.parameters.append(self.graph.input(spec(shape)))
        return self.parameters[-1]

    def convolution(self, x: Symbol, filters: int) -> Symbol:
        last, back = self.change(x)
        y = back(ops.convolution(last, self.parameter(3, 3, x.shape[1], filters), window=window_of(3, padding="same")))
        return y * self.parameter(filters, 1, 1) + self.parameter(1, filters, 1, 1)

    def pool(self, x: Symbol) -> Symbol:
        last, back = self.change(x)
        return back(ops.max_pool(last, (2, 2), window_of(2, stride=2)))

    def network(self, joined: bool = True) -> Symbol:
        x = ops.convert_layout(self.x, Layout.NCHW) if self.change is converted else self.x
        h = ops.relu(self.convolution(x, 4))
        h = ops.relu(h + self.convolution(ops.relu(self.convolution(h, 4)), 4))
        h = self.pool(ops.concatenate([h, ops.flip(h, 2)], 1) if joined else self.convolution(ops.flip(h, 2), 8))
        gate = ops.sigmoid(ops.reduce_mean(h, (2, 3), keepdims=True))
        return ops.gemm(ops.reduce_mean(h * gate, (2, 3)), self.parameter(8, 3))


def conversions(graph: SymbolicGraph) -> list[str]:
    """The conversions with what they make."""
    records = [graph.execs[key] for key in graph.execs.toposort()]
    return [str(graph.tensors[record.outputs[0]].spec) for record in records if record.command.op.name in CONVERSIONS]


@pytest.mark.parametrize(("change", "left"), [(transposed, ["f32[2, 8, 8, 3]"]), (converted, ["f32[2, 8]:NCHW"])])
def test_a_network_with_channels_first_converts_at_its_border(
    change: Callable[[Symbol], tuple[Symbol, Change]], left: list[str]
) -> None:
    net = ChannelsFirst(change)
    y = net.network()
    assert len(conversions(net.graph)) >= 8
    origins = {record.origin for _, record in net.graph.execs.items()}
    (report,) = check(net.graph, [y], [net.x, *net.parameters], [Pass.LAYOUT])
    assert {record.origin for _, record in net.graph.execs.items()} <= origins
    assert conversions(net.graph) == left
    assert report.fired["regions"] >= 1


def test_gradients_convert_at_their_border() -> None:
    net = ChannelsFirst(transposed)
    y = net.network(joined=False)
    outputs = [y, *backward(net.graph, [y], [net.x, *net.parameters])]
    assert len(conversions(net.graph)) > 15
    check(net.graph, outputs, [net.x, *net.parameters], [Pass.COMMON_SUBEXPRESSIONS, Pass.LAYOUT])
    assert conversions(net.graph) == ["f32[2, 8, 8, 3]", "f32[2, 3, 8, 8]"]


def test_gradients_of_parts_keep_their_values() -> None:
    for change in (transposed, converted):
        net = ChannelsFirst(change)
        y = net.network()
        outputs = [y, *backward(net.graph, [y], [net.x, *net.parameters])]
        before = len(conversions(net.graph))
        check(net.graph, outputs, [net.x, *net.parameters], [Pass.LAYOUT, Pass.GROUPS])
        assert len(conversions(net.graph)) < before


def test_the_text_of_a_small_network() -> None:
    graph = SymbolicGraph("net")
    x, w, b = (
        graph.input(spec((1, 2, 4, 4)), "x"),
        graph.input(spec((1, 1, 2, 3)), "w"),
        graph.input(spec((3, 1, 1)), "b"),
    )
    y = ops.transpose(ops.convolution(ops.transpose(x, LAST), w, window=window_of(1)), FIRST)
    z = ops.max_pool(ops.transpose(ops.relu(y + b), LAST), (2, 2), window_of(2, stride=2))
    simplify(graph, [z], [Pass.LAYOUT])
    assert [line.split(" = ")[1] for line in dump(graph, origins=False).splitlines()[4:]] == [
        "transpose(permutation=[0, 2, 3, 1]) <- %0",
        'convolution(window={"strides": [1, 1], "padding": [[0, 0], [0, 0]], "dilations": [1, 1]}) <- %3, %1, –',
        "part of %2 at 0 by [3, 3, 3, 1]",
        "add <- %4, %5",
        "relu <- %6",
        'max_pool(kernel=[2, 2], window={"strides": [2, 2], "padding": [[0, 0], [0, 0]], "dilations": [1, 1]}) <- %7',
    ]


def test_a_conversion_that_pays_nothing_stays() -> None:
    graph = SymbolicGraph()
    x, c = graph.input(spec((2, 3, 4, 5))), graph.input(spec((2, 4, 5, 3)))
    y = ops.relu(ops.transpose(x, LAST)) + c
    assert simplify(graph, [y], [Pass.LAYOUT])[0].fired == {}
    assert conversions(graph) == ["f32[2, 4, 5, 3]"]


def test_a_reader_of_a_reshaped_part_of_a_region_is_no_part_of_it() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2, 3, 4, 5, 2)), "x")
    turned = ops.transpose(x, (0, 2, 1, 3, 4))
    y = ops.pad(ops.reshape(turned, (2, 12, 5, 2)), (0, 1, 0, 0), (0, 0, 2, 0))
    check(graph, [y, ops.relu(turned)], [x], [Pass.LAYOUT])


def test_what_must_not_be_optimized_stays() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2, 3, 4, 5)))
    h = ops.relu(ops.transpose(x, LAST))
    graph.keep(*graph.writers(h.key))
    assert simplify(graph, [ops.exp(ops.transpose(h, FIRST))], [Pass.LAYOUT])[0].fired == {}


def test_permutations() -> None:
    assert compose(LAST, FIRST) == identity(4) == compose(FIRST, inverse(FIRST))
    assert (layout_permutation(Layout.NHWC, 4), layout_permutation(Layout.NCHW, 4)) == (LAST, FIRST)
    x = np.arange(24).reshape(1, 2, 3, 4)
    np.testing.assert_array_equal(x.transpose(LAST).transpose((1, 0, 3, 2)), x.transpose(compose(LAST, (1, 0, 3, 2))))


@pytest.mark.parametrize("op", [op for op in OPERATORS if op in PERMUTED], ids=lambda op: str(op.name))
def test_each_rule_is_the_operator_on_permuted_operands(op: Op[Any]) -> None:
    example = example_of(op)
    plans = 0
    (result,) = infer(op, example.attrs, example.inputs)
    ranks = [one.rank for one in (*example.inputs, result) if one is not None]
    for order in itertools.permutations(range(max(ranks))):
        graph = SymbolicGraph()
        inputs = [graph.input(one) for one in example.inputs if one is not None]
        plan = PERMUTED[op](example.attrs, example.inputs, order)
        if plan is None:
            continue
        plans += 1
        (y,) = graph.apply(Command(op, example.attrs), inputs)
        turned = [
            one if p is None else ops.transpose(ops.reshape(one, (*(1,) * (len(p) - len(one.shape)), *one.shape)), p)
            for one, p in zip(inputs, plan.inputs, strict=True)
        ]
        (z,) = graph.apply(Command(op, plan.attrs), turned)
        want, got = interpret(graph, [ops.transpose(y, plan.outputs[0]), z], named(inputs))
        np.testing.assert_array_equal(got, want)
    assert plans


@EXAMPLES
@given(programs(), st.permutations(range(4)), st.permutations(range(3)))
def test_random_programs_keep_their_values(program: Program, four: list[int], three: list[int]) -> None:
    graph = SymbolicGraph()
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    orders = {2: (1, 0), 3: tuple(three), 4: tuple(four)}
    operands, wanted = run(program, symbols)
    for symbol in operands[len(symbols) :]:
        if len(symbol.shape) in orders:
            wanted.append(ops.tanh(ops.transpose(ops.relu(ops.transpose(symbol, orders[len(symbol.shape)])))))
    outputs = [*wanted, *backward(graph, wanted, symbols)]
    check(graph, outputs, symbols, [Pass.LAYOUT])
    values = interpret(graph, outputs, named(symbols))
    simplify(graph, outputs, [Pass.LAYOUT, Pass.COMMON_SUBEXPRESSIONS, Pass.LAYOUT, Pass.GROUPS])
    for got, want in zip(interpret(graph, outputs, named(symbols)), values, strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@settings(EXAMPLES, max_examples=60)
@given(st.data(), st.lists(st.sampled_from([1, 2, 3]), max_size=5), st.booleans())
def test_a_transposition_of_a_reshaped_one_is_one_at_the_most(
    data: st.DataObject, pieces: list[int], is_wanted: bool
) -> None:
    def grouped() -> list[int]:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(pieces)), max_size=3)))
        ends = [0, *cuts, len(pieces)]
        return [math.prod(pieces[begin:end]) for begin, end in itertools.pairwise(ends)]

    middle, target = grouped(), grouped()
    p, q = (tuple(data.draw(st.permutations(range(len(shape))))) for shape in (middle, target))
    graph = SymbolicGraph()
    x = graph.input(spec(tuple(middle[p.index(axis)] for axis in range(len(p)))))
    y = ops.reshape(ops.transpose(x, p), target)
    outputs = [ops.relu(ops.transpose(y, q)), *([ops.transpose(y, q)] if is_wanted else [])]
    before = len(conversions(graph))
    check(graph, outputs, [x], [Pass.LAYOUT, Pass.PRUNING])
    assert len(conversions(graph)) <= before
    assert is_wanted or len(conversions(graph)) <= 1


def test_a_shuffle_of_channels_in_a_file_is_one_transposition() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2, 4, 5, 6)))
    parts = ops.transpose(ops.reshape(ops.transpose(x, FIRST), (2, 3, 2, 4, 5)), (0, 2, 1, 3, 4))
    y = ops.relu(ops.transpose(ops.reshape(parts, (2, 6, 4, 5)), LAST))
    check(graph, [y], [x], [Pass.LAYOUT])
    assert conversions(graph) == ["f32[2, 4, 5, 2, 3]"]
