"""Floating-point operations of commands, against counts by hand."""

from __future__ import annotations

import pytest

from nnc.core.command import AnyCommand, Command
from nnc.core.spec import TensorSpec
from nnc.ops.attention import ATTENTION, AttentionAttrs
from nnc.ops.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.operators import OPERATORS
from nnc.ops.pointwise import RELU
from nnc.ops.pooling import MAX_POOL, PoolAttrs
from nnc.ops.products import GEMM, GemmAttrs
from nnc.ops.repetition import stand_ins
from nnc.ops.rules import INPLACE, NoAttrs, example_of, infer
from nnc.ops.window import Window
from nnc.ops.work import work

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
        (Command(RELU, NoAttrs()), [(4, 5)], 20),
    ],
    ids=lambda value: value.op.name if isinstance(value, Command) else "",
)
def test_work_by_hand(command: AnyCommand, shapes: list[tuple[int, ...] | None], expected: int) -> None:
    specs = tuple(None if shape is None else TensorSpec(shape) for shape in shapes)
    assert work(command, specs, infer(command.op, command.attrs, specs)) == expected


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
