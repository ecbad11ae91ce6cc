"""Simplification: every rule fires, values stay, wanted outputs keep their symbols, graphs stay valid."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.core.dtype import F32, F64
from nnc.core.spec import spec
from nnc.errors import VerificationError
from nnc.ops.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.operand import apply
from nnc.ops.pointwise import AFFINE, CAST, CastAttrs, affine
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.passes.algebra import ALGEBRA, TRANSFERS
from nnc.symbolic.passes.fusion import FUSION
from nnc.symbolic.rewrite import Match, Rule, rewrite

ROWS = spec((3, 4), "f64")


def values_of(graph: SymbolicGraph, outputs: list[Symbol], inputs: list[Symbol]) -> list[np.ndarray]:
    """The outputs for fixed random inputs on the reference backend."""
    generator = np.random.default_rng(7)
    values = {symbol: generator.standard_normal(symbol.shape) for symbol in inputs}
    return list(compile(graph, outputs, backend="reference")(values, *outputs))


BUILDERS = {
    "identity affine": lambda x: affine(x, 1.0, 0.0) * x,
    "affine of affine": lambda x: (x * 2.0 + 1.0) * 3.0 - 4.0,
    "affine of fill": lambda x: x + (ops.fill_like(x, 2.0) * 3.0 + 1.0),
    "transpose of transpose": lambda x: ops.exp(ops.transpose(ops.transpose(x, (1, 0)), (1, 0))),
    "sum over ones": lambda x: ops.exp(ops.reduce_sum(ops.reshape(x * x, (3, 1, 4)) * 1.5, 1)),
    "same cast": lambda x: ops.exp(apply(CAST, CastAttrs(F64), x)),
    "square": lambda x: x * x,
    "add constant": lambda x: ops.exp(x + ops.fill_like(x, 2.0)),
    "subtract constant": lambda x: ops.exp(ops.fill_like(x, 2.0) - x),
    "multiply constant": lambda x: ops.exp(ops.fill_like(x, 2.0) * x),
    "divide by constant": lambda x: ops.exp(x / ops.fill_like(x, 2.0)),
    "copy": lambda x: ops.exp(ops.contiguous(x)[1:3]),
    "bias": lambda x: ops.gemm(x, ops.transpose(x)) + ops.reduce_sum(x, 1),
    "log of softmax": lambda x: ops.log(ops.softmax(x)),
}


@pytest.mark.parametrize("rule", [*ALGEBRA, *TRANSFERS, *FUSION], ids=lambda rule: rule.name.replace(" ", "-"))
def test_every_rule_fires_and_keeps_the_value(rule: Rule) -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS, "x")
    y = BUILDERS[rule.name](x)
    before = values_of(graph, [y], [x])
    assert rewrite(graph, [rule], [y])[rule.name] >= 1
    simplify(graph, [y], [Pass.PRUNING])
    assert faults(graph) == ()
    for got, want in zip(values_of(graph, [y], [x]), before, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_case_34_a_duplicated_sum_is_computed_once() -> None:
    graph = SymbolicGraph()
    x, y = graph.input(spec((1,)), "x"), graph.input(spec((1,)), "y")
    product = (x + y) * (x + y)
    reports = simplify(graph, [product], [Pass.COMMON_SUBEXPRESSIONS, Pass.DATA_TRANSFER, Pass.FUSION, Pass.PRUNING])
    assert len(graph.execs) == 2
    assert reports[0].name == "common sub-expressions"
    got = compile(graph, [product], backend="reference")({x: [10.0], y: [8.0]}, product)
    assert got[0] == [18.0**2]


def test_common_subexpressions_tell_aliases_apart() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS, "x")
    y = ops.exp(x[0]) + ops.exp(x[1]) * ops.exp(x[0])
    simplify(graph, [y], [Pass.COMMON_SUBEXPRESSIONS])
    assert sum(record.command.op.name == "exp" for _, record in graph.execs.items()) == 2
    assert faults(graph) == ()


def test_two_wanted_outputs_that_are_equal_keep_their_symbols() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS, "x")
    one, two = ops.exp(x), ops.exp(x)
    before = values_of(graph, [one, two], [x])
    simplify(graph, [one, two])
    after = values_of(graph, [one, two], [x])
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_wanted_copy_stays_a_copy() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS, "x")
    y = ops.contiguous(x)
    simplify(graph, [y])
    assert len(graph.execs) == 1


def test_a_network_with_gradients_keeps_its_values_under_every_order_of_passes() -> None:
    def build() -> tuple[SymbolicGraph, list[Symbol], list[Symbol]]:
        graph = SymbolicGraph()
        x, w, b = graph.input(spec((5, 4), "f64")), graph.input(spec((4, 3), "f64")), graph.input(spec((3,), "f64"))
        hidden = ops.tanh(ops.gemm(x, w) + b)
        loss = ops.reduce_mean(ops.square(ops.log(ops.softmax(hidden)) * 2.0 + 1.0))
        return graph, [loss, *backward(graph, [loss], [w, b])], [x, w, b]

    graph, outputs, inputs = build()
    want = values_of(graph, outputs, inputs)
    for passes in ([one] for one in Pass):
        graph, outputs, inputs = build()
        simplify(graph, outputs, passes)
        assert faults(graph) == ()
        for got, expected in zip(values_of(graph, outputs, inputs), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    graph, outputs, inputs = build()
    reports = simplify(graph, outputs, list(Pass) + list(Pass))
    assert reports[-1].after < reports[0].before
    for got, expected in zip(values_of(graph, outputs, inputs), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_rules_that_undo_each_other_are_named() -> None:
    def double(match: Match) -> tuple[Symbol, ...]:
        return (affine(match.input(0), match.command.attrs.scale, match.command.attrs.shift + 1.0),)

    graph = SymbolicGraph()
    y = affine(graph.input(spec((2,), F32)), 2.0)
    with pytest.raises(VerificationError, match="grow"):
        rewrite(graph, [Rule("grow", AFFINE, double)], [y])


def test_a_rule_of_the_users_own_package() -> None:
    def row_sums(match: Match) -> tuple[Symbol, ...] | None:
        inner = match.producer(0, REDUCE_SUM)
        if inner is None or inner.inputs[0] is None or match.command.attrs.keepdims or inner.command.attrs.keepdims:
            return None
        if (inner.command.attrs.axes, match.command.attrs.axes) != ((1,), (0,)):
            return None
        return (apply(REDUCE_SUM, ReduceAttrs((0, 1)), match.graph.symbol(inner.inputs[0])),)

    graph = SymbolicGraph()
    x = graph.input(ROWS)
    y = ops.reduce_sum(ops.reduce_sum(x, 1), 0)
    before = values_of(graph, [y], [x])
    assert rewrite(graph, [Rule("sum of sums", REDUCE_SUM, row_sums)], [y]) == {"sum of sums": 1}
    simplify(graph, [y], [Pass.PRUNING])
    assert len(graph.execs) == 1
    np.testing.assert_allclose(values_of(graph, [y], [x])[0], before[0], rtol=1e-12)
