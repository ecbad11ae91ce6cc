"""Simplification: every rule fires, values stay, wanted outputs keep their symbols, graphs stay valid."""

from __future__ import annotations

import numpy as np
import pytest
from tests.symbolic.interpreter import interpret

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.device import CPU
from nnc.core.values.dtype import F16, F32, F64, TOLERANCE, DType
from nnc.core.values.spec import spec
from nnc.errors import VerificationError
from nnc.ops.composed.own_gradient import OWN_GRADIENT, OwnGradientAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import AFFINE, CAST, CastAttrs, affine, exp
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.transfer import TO_DEVICE, TransferAttrs
from nnc.ops.operand import apply
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults, scope
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.passes.algebra import ALGEBRA, EITHER, IDEMPOTENT
from nnc.symbolic.passes.fusion import FUSION, LOGITS
from nnc.symbolic.passes.transfer import TRANSFERS
from nnc.symbolic.rewrite import Match, Rule, rewrite

ROWS = spec((3, 4), "f64")


def values_of(graph: SymbolicGraph, outputs: list[Symbol], inputs: list[Symbol]) -> list[np.ndarray]:
    """The outputs for fixed random inputs on the reference backend."""
    generator = np.random.default_rng(7)
    values = {symbol: generator.standard_normal(symbol.shape) for symbol in inputs}
    return list(compile(graph, outputs, backend="reference")(values, *outputs))


BUILDERS = {
    "identity affine": lambda x: affine(x, 1.0) * x,
    "affine of affine": lambda x: (x * 2.0 + 1.0) * 3.0 - 4.0,
    **{
        f"{op.name} of {op.name}": lambda x, op=op: apply(op, NoAttrs(), apply(op, NoAttrs(), x)) * x
        for op in IDEMPOTENT
    },
    **{f"{op.name} of equals": lambda x, op=op: apply(op, NoAttrs(), x, x) * x for op in EITHER},
    "transpose of transpose": lambda x: ops.exp(ops.transpose(ops.transpose(x, (1, 0)), (1, 0))),
    "transpose of ones": lambda x: ops.exp(ops.transpose(ops.reduce_sum(x * x, 1, keepdims=True))),
    "transposed factor": lambda x: ops.gemm(ops.transpose(ops.exp(x)), ops.transpose(x)[:3], transpose_b=True),
    "sum over ones": lambda x: ops.exp(ops.reduce_sum(ops.reshape(x * x, (3, 1, 4)) * 1.5, 1)),
    "sum of sum": lambda x: ops.reduce_sum(ops.reduce_sum(ops.reshape(x, (3, 2, 2)), 1), 0),
    "broadcast to the same shape": lambda x: apply(BROADCAST_TO, BroadcastAttrs((3, 4)), x) * x,
    "same cast": lambda x: ops.exp(apply(CAST, CastAttrs(F64), x)),
    "cast of a wider cast": lambda x: ops.cast(ops.cast(ops.cast(x, F16), F32), F64),
    "square": lambda x: x * x,
    "add constant": lambda x: ops.exp(x + ops.fill_like(x, 2.0)),
    "subtract constant": lambda x: ops.exp(ops.fill_like(x, 2.0) - x),
    "multiply constant": lambda x: ops.exp(ops.fill_like(x, 2.0) * x),
    "divide by a power of two": lambda x: ops.exp(x / ops.fill_like(x, 2.0)),
    "copy": lambda x: ops.exp(ops.contiguous(x)[1:3]),
    "stopped gradient": lambda x: ops.exp(ops.stop_gradient(x)),
    "gradient of its own": lambda x: ops.exp(
        x.apply(Command(OWN_GRADIENT, OwnGradientAttrs(1, lambda call, slopes: slopes, tuple)), [ops.square(x), x])[0]
    ),
    "copy of a result": lambda x: ops.contiguous(ops.exp(x)),
    "transfer there and back": lambda x: ops.exp(apply(TO_DEVICE, TransferAttrs(CPU), x)),
    "bias": lambda x: ops.gemm(x, ops.transpose(x)) + ops.reduce_sum(x, 1),
    "log of softmax": lambda x: ops.log(ops.softmax(x)),
    "softmax into loss": lambda x: ops.categorical_cross_entropy(ops.softmax(x), ops.argmax(x, 1)),
    "sigmoid into loss": lambda x: ops.binary_cross_entropy(
        ops.sigmoid(x), ops.square(ops.sin(x)), positive_weight=2.0
    ),
}


@pytest.mark.parametrize("rule", [*ALGEBRA, *TRANSFERS, *FUSION, *LOGITS], ids=lambda rule: rule.name.replace(" ", "-"))
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


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("target", [0.0, 1.0])
def test_simplify_keeps_the_loss_of_a_far_logit(dtype: DType, target: float) -> None:
    logits = np.array([-1000.0, -100.0, -30.0, -15.0, 0.0, 15.0, 30.0, 100.0])[:, None]
    graph = SymbolicGraph()
    x, t = graph.input(spec((8, 1), dtype), "x"), graph.input(spec((8, 1), dtype), "t")
    two, labels = graph.input(spec((8, 2), dtype), "two"), graph.input(spec((8,), "i32"), "labels")
    losses = [
        ops.binary_cross_entropy(ops.sigmoid(x), t),
        ops.categorical_cross_entropy(ops.softmax(two), labels),
    ]
    values = {
        x: logits,
        t: np.full((8, 1), target),
        two: np.concatenate([logits, np.zeros((8, 1))], 1),
        labels: np.full(8, 1 - int(target), np.int32),
    }
    before = interpret(graph, losses, values)
    reports = simplify(graph, losses)
    assert {name for report in reports for name in report.fired} >= {"softmax into loss"}
    tolerance = TOLERANCE[dtype]
    for got, want in zip(interpret(graph, losses, values), before, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance.relative, atol=tolerance.absolute)
    # At -30 the loss is what it would be without any rounding.
    assert before[0][2] == pytest.approx(30.0 if target else 0.0, abs=1e-6)
    assert before[1][2] == pytest.approx(30.0 if target else 0.0, abs=1e-6)


def test_case_34_a_duplicated_sum_is_computed_once() -> None:
    graph = SymbolicGraph()
    x, y = graph.input(spec((1,)), "x"), graph.input(spec((1,)), "y")
    product = (x + y) * (x + y)
    reports = simplify(graph, [product], [Pass.COMMON_SUBEXPRESSIONS, Pass.DATA_TRANSFER, Pass.FUSION, Pass.PRUNING])
    assert len(graph.execs) == 2
    assert reports[0].name == "common sub-expressions"
    got = compile(graph, [product], backend="reference")({x: [10.0], y: [8.0]}, product)
    assert got[0] == [18.0**2]


def test_case_35_what_is_copied_into_a_part_is_computed_there() -> None:
    graph = SymbolicGraph()
    x, y, z = graph.input(spec((1,)), "x"), graph.input(spec((1,)), "y"), graph.input(spec((2,)), "z")
    graph.apply(Command(contiguous, NoAttrs()), [x + y], [z[0:1]])
    graph.apply(Command(contiguous, NoAttrs()), [x], [z[1:2]])
    (report,) = simplify(graph, [z], [Pass.DATA_TRANSFER])
    assert report.fired == {"copy of a result": 1}
    assert faults(graph) == ()
    assert sorted(record.command.op.name for _, record in graph.execs.items()) == ["add", "copy"]
    (got,) = compile(graph, [z], backend="reference")({x: [1.2], y: [8.0]}, z)
    np.testing.assert_array_equal(got, np.array([9.2, 1.2], np.float32))


def test_a_value_that_others_read_or_want_is_copied() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS, "x")
    wanted, read = ops.exp(x), ops.sin(x)
    columns = graph.input(spec((4, 3), "f64"), "columns")
    graph.apply(Command(contiguous, NoAttrs()), [ops.tanh(x[:, 0])], [columns[0:3, 0]])
    outputs = [wanted, ops.contiguous(wanted), ops.contiguous(read), ops.cos(read), columns]
    (report,) = simplify(graph, outputs, [Pass.DATA_TRANSFER])
    assert report.fired == {}
    assert report.after == 7


def test_case_36_softmax_and_cross_entropy_are_one_command_with_its_gradient() -> None:
    def gradient(fused: bool) -> np.ndarray:
        graph = SymbolicGraph()
        x = graph.input(ROWS, "x")
        labels = ops.argmax(x, 1)
        loss = ops.softmax_cross_entropy(x, labels)[0]
        if fused:
            loss = ops.categorical_cross_entropy(ops.softmax(x), labels)
            (report,) = simplify(graph, [loss], [Pass.FUSION])
            assert report.fired == {"softmax into loss": 1}
        (slope,) = backward(graph, [loss], [x])
        return values_of(graph, [slope], [x])[0]

    np.testing.assert_array_equal(gradient(True), gradient(False))


def test_integers_that_no_attribute_holds_stay() -> None:
    for dtype, factor in (("u8", 100.0), ("i64", 2.0**40)):
        graph = SymbolicGraph()
        x = graph.input(spec((3,), dtype), "x")
        y = (x * factor) * factor + ops.fill_like(x, 100.0) * 2.0
        values = {x: np.array([1, 3, 200])}
        before = interpret(graph, [y], values)[0]
        simplify(graph, [y], [Pass.ALGEBRA, Pass.CONSTANTS])
        assert faults(graph) == ()
        np.testing.assert_array_equal(interpret(graph, [y], values)[0], before)


def test_factors_that_the_type_does_not_hold_stay() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((1,)), "x")
    outputs = [affine(affine(x, 1e-30), 1e-30), affine(affine(x, 1e30), 1e30), x / ops.fill_like(x, 1e-40)]
    (report,) = simplify(graph, outputs, [Pass.ALGEBRA])
    assert report.fired == {}


def test_what_a_rule_makes_has_the_name_and_the_line_of_what_it_replaces() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(ROWS, "x"), graph.input(spec((4, 4), "f64"), "w")
    with scope("layer"):
        y = ops.gemm(x * 2.0 * 3.0, w) + w[0]
    before = {record.name: record.origin for _, record in graph.execs.items()}
    reports = simplify(graph, [y], [Pass.ALGEBRA, Pass.FUSION])
    assert [dict(report.fired) for report in reports] == [{"affine of affine": 1}, {"bias": 1}]
    assert {record.name: record.origin for _, record in graph.execs.items()} == {
        name: before[name] for name in ("layer.affine", "layer.add")
    }


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


@pytest.mark.parametrize("axes", [1, 2])
def test_a_bias_of_more_axes_than_the_product_is_added(axes: int) -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((3, 4), F64), "x"), graph.input(spec((4, 5), F64), "w")
    picture, kernel = graph.input(spec((1, 6, 6, 2), F64), "picture"), graph.input(spec((3, 3, 2, 5), F64), "kernel")
    b = graph.input(spec((1,) * (axes + 3) + (5,), F64), "b")
    window = Window((1, 1), ((0, 0), (0, 0)), (1, 1))
    outputs = [x @ w + b, ops.convolution(picture, kernel, window=window) + b]
    before = values_of(graph, outputs, [x, w, picture, kernel, b])
    simplify(graph, outputs)
    assert faults(graph) == ()
    for got, want in zip(values_of(graph, outputs, [x, w, picture, kernel, b]), before, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


def test_a_rule_that_changes_a_shape_is_named() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS, "x")
    y = ops.exp(x)
    with pytest.raises(VerificationError, match="rule 'flat' replaces"):
        rewrite(graph, [Rule("flat", exp, lambda match: (ops.relu(match.input(0)[0]),))], [y])


def test_what_lies_outside_of_sources_and_destinations_stays_as_it_is() -> None:
    """exp twice in front, sin twice between, and what nobody needs on both sides."""
    graph = SymbolicGraph()
    x = graph.input(ROWS, "x")
    one, other = ops.exp(x), ops.exp(x)
    first, second, unneeded = ops.sin(one), ops.sin(one), ops.cos(one)
    y = first * second + other
    ops.tanh(x)
    (source,) = graph.writers(one.key)
    (destination,) = graph.writers(y.key)
    before = values_of(graph, [y], [x])
    assert unneeded.key in graph.tensors
    (report,) = simplify(graph, [y], [Pass.COMMON_SUBEXPRESSIONS], destinations=[source])
    assert report.before == report.after == 8
    simplify(graph, [y], [Pass.COMMON_SUBEXPRESSIONS, Pass.PRUNING], sources=[source], destinations=[destination])
    names = [record.command.op.name for _, record in graph.execs.items()]
    assert sorted(names) == ["add", "cos", "exp", "exp", "multiply", "sin", "tanh"]
    assert all(record.optimize for _, record in graph.execs.items())
    np.testing.assert_array_equal(values_of(graph, [y], [x]), before)
    simplify(graph, [y], [Pass.COMMON_SUBEXPRESSIONS, Pass.PRUNING])
    assert len(graph.execs) == 4
