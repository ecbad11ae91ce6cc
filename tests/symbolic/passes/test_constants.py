"""Constant folding: every row fires and gives the value that the exec would have computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.evaluation import values_of
from tests.symbolic.passes.equality import check, check_program
from tests.symbolic.programs import Program, programs

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL, F32, I32, U8, DType
from nnc.core.values.spec import Layout, TensorSpec, spec
from nnc.ops.elementwise import integers
from nnc.ops.elementwise.pointwise import AFFINE, CAST, AffineAttrs, CastAttrs
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.movement.layout import CONVERT_LAYOUT, LayoutAttrs
from nnc.ops.movement.movement import CONCATENATE, TRANSPOSE, ConcatenateAttrs, TransposeAttrs
from nnc.ops.reduction.reduction import REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN
from nnc.ops.rules import NoAttrs
from nnc.symbolic import SymbolicGraph, faults
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.passes.constants import CONSTANTS
from nnc.symbolic.rewrite import Rule

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SHAPE = (3, 4)
ATTRIBUTES: dict[object, object] = {
    AFFINE: AffineAttrs(2.0, -1.0),
    CAST: CastAttrs(I32),
    BROADCAST_TO: BroadcastAttrs((2, 3, 4)),
    CONVERT_LAYOUT: LayoutAttrs(Layout.NCHW),
    TRANSPOSE: TransposeAttrs((1, 0)),
    CONCATENATE: ConcatenateAttrs(0),
    **dict.fromkeys((REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM), ReduceAttrs((0,))),
}


# Operators whose operands are of several types.
MIXED = {"where": (BOOL, F32, F32), "quantize": (F32, F32, U8), "dequantize": (U8, F32, U8)}


def types_for(rule: Rule, arity: int) -> tuple[DType, ...]:
    """Element types that the operator takes."""
    if rule.op.name in MIXED:
        return MIXED[rule.op.name]
    if rule.op.name in integers.__all__:
        return (I32,) * arity
    return (BOOL,) * arity if rule.op.name.startswith("logical") else (F32,) * arity


@pytest.mark.parametrize("rule", CONSTANTS, ids=lambda rule: rule.name.replace(" ", "-"))
def test_every_row_fires(rule: Rule) -> None:
    graph = SymbolicGraph()
    arity = len(rule.op.inputs) if isinstance(rule.op.inputs, tuple) else 2
    value = 1.0 if rule.op is REDUCE_SUM or rule.op is CONCATENATE else 0.75
    inputs = [
        graph.apply(
            Command(FILL, FillAttrs(value + place * (arity > 2) if dtype is F32 else 1.0, TensorSpec(SHAPE, dtype))),
            (),
        )[0]
        for place, dtype in enumerate(types_for(rule, arity))
    ]
    (y,) = graph.apply(Command(rule.op, ATTRIBUTES.get(rule.op, NoAttrs())), inputs)
    before = values_of(graph, [y], {})[0]
    (report,) = simplify(graph, [y], [Pass.CONSTANTS])
    assert report.fired == {rule.name: 1}
    assert faults(graph) == ()
    assert [record.command.op for _, record in graph.execs.items()] == [FILL]
    after = values_of(graph, [y], {})[0]
    assert after.dtype == before.dtype
    np.testing.assert_array_equal(after, before)


def test_a_whole_expression_becomes_one_fill() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec(SHAPE))
    two = ops.fill_like(x, 2.0)
    y = x * ops.exp(ops.reduce_mean(two * two, 0) - ops.sqrt(two)[1])
    check(graph, [y], [x], [Pass.CONSTANTS])
    assert sorted(record.command.op.name for _, record in graph.execs.items()) == ["fill", "multiply"]


def test_integers_that_no_float_holds_are_folded_exactly() -> None:
    graph = SymbolicGraph()
    big = graph.apply(Command(FILL, FillAttrs(2**53 + 1, spec((2,), "i64"))), ())[0]
    y = ops.affine(big, 3, 2) + ops.fill_like(big, 2**62) * 3
    simplify(graph, [y], [Pass.CONSTANTS])
    ((_, record),) = graph.execs.items()
    assert record.command.attrs.value == 3 * (2**53 + 1) + 2 + 3 * 2**62 - 2**64


def test_a_tensor_written_in_parts_is_no_constant() -> None:
    graph = SymbolicGraph()
    whole = graph.input(spec((4,)))
    graph.apply(Command(FILL, FillAttrs(1.0, spec((2,)))), (), [whole[0:2]])
    y = ops.exp(whole)
    (report,) = simplify(graph, [y], [Pass.CONSTANTS])
    assert report.fired == {}


@EXAMPLES
@given(programs())
def test_random_programs(program: Program) -> None:
    check_program(program, [Pass.CONSTANTS])
