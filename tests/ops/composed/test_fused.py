"""Fused expressions as data: what is refused, how they read, and that they compute and differentiate as their steps."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

import numpy as np
import pytest
from tests.conformance.cases_fused import CHOICE, GATE, ONE_AFTER_MOVES, SWISH, step
from tests.ops.eager import Eager

from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import spec
from nnc.errors import AttributeValueError, ShapeError
from nnc.graph import Op
from nnc.ops.composed.fused import FUSED_POINTWISE, FusedAttrs, FusedStep, is_fusable, replay, result_of, specs_of
from nnc.ops.elementwise.pointwise import add, exp
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.generate import ARANGE
from nnc.ops.operators import OPERATORS
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.random.random import DROPOUT
from nnc.ops.reduction.reduction import REDUCE_MEAN
from nnc.ops.rules import INPLACE, infer


def test_an_expression_reads_as_a_formula() -> None:
    assert str(GATE) == "tanh(add(multiply(x0, x1), x2))"
    assert str(SWISH) == "multiply(x0, sigmoid(affine(scale=1.5)(x0)))"


@pytest.mark.parametrize(
    ("inputs", "steps"),
    [
        (0, (step(exp, 0),)),
        (1, ()),
        (1, (step(exp, 1),)),
        (1, (step(exp, -1),)),
        (2, (step(add, 0, 3), step(exp, 2))),
        (2, (step(exp, 0), step(GEMM, 2, 1, attrs=GemmAttrs()))),
        (1, (step(REDUCE_SUM, 0, attrs=ReduceAttrs((0,))), step(exp, 1))),
        (1, (step(DROPOUT, 0, attrs=DROPOUT.attributes()),)),
        (1, (step(FUSED_POINTWISE, 0, attrs=SWISH),)),
    ],
)
def test_what_is_no_expression_is_refused(inputs: int, steps: tuple[FusedStep, ...]) -> None:
    with pytest.raises(AttributeValueError, match="fused"):
        FusedAttrs(inputs, steps)


def test_operators_that_can_be_fused() -> None:
    assert is_fusable(exp)
    assert not any(map(is_fusable, (GEMM, ARANGE, DROPOUT, REDUCE_MEAN, FUSED_POINTWISE)))
    assert sum(map(is_fusable, OPERATORS)) > 40


def test_inference_is_that_of_the_steps() -> None:
    specs = (spec((4, 1)), spec((1, 3)), spec((3,)))
    assert infer(FUSED_POINTWISE, GATE, specs) == (spec((4, 3)),)
    assert specs_of(CHOICE, (spec((3,)), spec((3,))))[2] == spec((3,), "bool")
    assert infer(FUSED_POINTWISE, ONE_AFTER_MOVES, (spec((3, 1)),)) == (spec((2, 3, 5)),)
    with pytest.raises(ShapeError):
        infer(FUSED_POINTWISE, GATE, (spec((4,)), spec((3,)), spec((3,))))
    with pytest.raises(AttributeValueError, match="3"):
        infer(FUSED_POINTWISE, GATE, specs[:2])


def test_every_input_may_be_overwritten_where_it_fits() -> None:
    assert INPLACE[FUSED_POINTWISE](GATE).allowed == ((0, 0), (1, 0), (2, 0))


def test_a_replay_is_the_same_value() -> None:
    inputs = [Eager(np.random.default_rng(place).standard_normal((3, 4))) for place in range(3)]
    (fused,) = inputs[0].apply(Command(FUSED_POINTWISE, GATE), inputs)
    np.testing.assert_array_equal(replay(GATE, inputs).array, fused.array)


def test_equal_expressions_are_one_command() -> None:
    again = FusedAttrs(GATE.inputs, tuple(GATE.steps))
    assert Command(FUSED_POINTWISE, GATE) == Command(FUSED_POINTWISE, again)
    assert hash(Command(FUSED_POINTWISE, GATE)) == hash(Command(FUSED_POINTWISE, again))
    assert Command(FUSED_POINTWISE, GATE) != Command(FUSED_POINTWISE, SWISH)
    assert isinstance(FUSED_POINTWISE, Op)


class Value:
    """Nothing but itself."""


def test_values_are_let_go_behind_their_last_reader() -> None:
    alive, most = WeakSet[Value](), list[int]()

    def compute(command: AnyCommand, operands: Sequence[Value | None]) -> Value:
        made = Value()
        alive.add(made)
        most.append(len(alive))
        return made

    chain = FusedAttrs(1, tuple(step(exp, place) for place in range(30)))
    result = result_of(chain, [Value()], compute)
    assert (list(alive), max(most)) == ([result], 2)
