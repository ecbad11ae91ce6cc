"""Floating-point operations of commands, against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest

from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import TensorSpec
from nnc.errors import NotDifferentiableError
from nnc.graph import Op
from nnc.ops.composed.fused import FUSED_OUTPUT, FUSED_REDUCTION, FusedAttrs, FusedStep
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.pooling import MAX_POOL, PoolAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import relu, square
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.operators import OPERATORS
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.repetition import stand_ins
from nnc.ops.rules import INPLACE, NoAttrs, example_of, infer
from nnc.ops.sequence.attention import ATTENTION, AttentionAttrs
from nnc.ops.sequence.recurrent import LSTM
from nnc.ops.work import WORK, work
from nnc.symbolic import SymbolicGraph, backward

HALVING = Window((2, 2), ((0, 0), (0, 0)), (1, 1))
SAME = Window((1, 1), ((1, 1), (1, 1)), (1, 1))


@pytest.mark.parametrize(
    ("command", "shapes", "expected"),
    [
        (Command(GEMM, GemmAttrs()), [(5, 3, 7), (7, 2), None], 5 * 3 * 2 * 7 * 2),
        (Command(GEMM, GemmAttrs(transpose_a=True)), [(7, 3), (7, 2), None], 3 * 2 * 7 * 2),
        (Command(CONVOLUTION, ConvolutionAttrs(SAME, 1)), [(2, 8, 8, 3), (3, 3, 3, 5), None], 2 * 64 * 5 * 27 * 2),
        (Command(CONVOLUTION, ConvolutionAttrs(SAME, 2)), [(2, 8, 8, 4), (3, 3, 2, 6), None], 2 * 64 * 6 * 18 * 2),
        (Command(MAX_POOL, PoolAttrs((2, 2), HALVING)), [(2, 8, 8, 3)], 2 * 16 * 3 * 4),
        (Command(ATTENTION, AttentionAttrs(1.0)), [(2, 6, 3, 4)] * 3 + [None], 2 * 3 * 36 * (2 * 8 + 5)),
        (Command(ATTENTION, AttentionAttrs(1.0, True)), [(2, 6, 3, 4)] * 3 + [None], 2 * 3 * 18 * (2 * 8 + 5)),
        (Command(relu, NoAttrs()), [(4, 5)], 20),
    ],
    ids=lambda value: value.op.name if isinstance(value, Command) else "",
)
def test_work_by_hand(command: AnyCommand, shapes: list[tuple[int, ...] | None], expected: int) -> None:
    specs = tuple(None if shape is None else TensorSpec(shape) for shape in shapes)
    assert work(command, specs, infer(command.op, command.attrs, specs)) == expected


def test_a_fused_command_is_the_work_of_its_steps() -> None:
    """A convolution with bias and ReLU is a convolution first of all; a squared sum squares."""
    specs = (TensorSpec((2, 8, 8, 3)), TensorSpec((3, 3, 3, 5)))
    convolution = FusedStep(Command(CONVOLUTION, ConvolutionAttrs(SAME, 1)), (0, 1))
    command = Command(FUSED_OUTPUT, FusedAttrs(2, (convolution, FusedStep(Command(relu, NoAttrs()), (2,)))))
    assert work(command, specs, infer(command.op, command.attrs, specs)) == 2 * 64 * 5 * 27 * 2 + 2 * 64 * 5
    steps = (FusedStep(Command(square, NoAttrs()), (0,)), FusedStep(Command(REDUCE_SUM, ReduceAttrs((1,))), (1,)))
    command, matrix = Command(FUSED_REDUCTION, FusedAttrs(1, steps)), (TensorSpec((4, 6)),)
    assert work(command, matrix, infer(command.op, command.attrs, matrix)) == 24 + 24


def in_gradient(op: Op[Any]) -> set[Op[Any]]:
    """The operators of the gradient of an example."""
    one, graph = example_of(op), SymbolicGraph()
    inputs = [None if given is None else graph.input(given) for given in one.inputs]
    try:
        outputs = graph.apply(Command(op, one.attrs), inputs)
        wanted = [symbol for symbol in inputs if symbol is not None and symbol.spec.dtype.is_float]
        backward(graph, [symbol for symbol in outputs if symbol.spec.dtype.is_float][:1], wanted)
    except NotDifferentiableError:
        return set()
    return {record.command.op for _, record in graph.execs.items()}


def test_every_operator_with_a_product_inside_has_a_rule() -> None:
    """The gradient of a product holds products; that of nothing else leads to one."""
    gradients = {op: in_gradient(op) for op in OPERATORS}
    products: set[Op[Any]] = {GEMM, CONVOLUTION}
    while grown := {op for op, inside in gradients.items() if not inside.isdisjoint(products)} - products:
        products |= grown
    assert {FUSED_OUTPUT, ATTENTION, LSTM} < products
    assert [op.name for op in OPERATORS if op in products and op not in WORK] == []
    assert len(products) < len(OPERATORS) // 4


def test_every_operator_has_a_count_and_is_repeatable_or_not() -> None:
    """What is enforced in place and has no stand-in never runs again; here each has one, of the spec of its input."""
    for op in OPERATORS:
        one = example_of(op)
        specs = infer(op, one.attrs, one.inputs)
        command = Command(op, one.attrs)
        assert work(command, one.inputs, specs) > 0
        instead = stand_ins(command)
        assert instead is not None
        assert set(instead) == {source for source, _ in INPLACE[op](one.attrs).enforced}
        assert all(one.inputs[source] == specs[target] for source, target in instead.items())
