"""Every operator has an example that its own rule takes."""

from __future__ import annotations

import pytest

from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64
from nnc.core.values.spec import Layout, spec
from nnc.errors import UsageError
from nnc.graph import Registry, default_registry
from nnc.ops import OPERATORS
from nnc.ops.convolutions.pooling import MAX_POOL
from nnc.ops.elementwise.pointwise import add, logical_not
from nnc.ops.examples import EXAMPLE
from nnc.ops.optimizer.optimizer import ADAM
from nnc.ops.products.products import GEMM
from nnc.ops.random.random import RANDOM_NORMAL
from nnc.ops.rules import NotDifferentiable, example_of, infer, operator, outputs_of


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_inference_takes_the_example(op) -> None:
    example = example_of(op)
    assert infer(op, example.attrs, example.inputs)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [F64, F16, BF16], ids=str)
def test_examples_take_every_float(op, dtype) -> None:
    assert outputs_of(op, example_of(op).typed(dtype))


def test_examples_are_of_known_operators() -> None:
    assert set(EXAMPLE.ops(default_registry)) <= set(OPERATORS)


def test_only_the_type_under_test_changes() -> None:
    adam = example_of(ADAM).typed(F16).inputs
    assert [one.dtype for one in adam if one is not None] == [F16] * 4 + [F32] * 2
    assert example_of(logical_not).typed(F64).inputs == (spec((4, 4), BOOL),)
    assert outputs_of(RANDOM_NORMAL, example_of(RANDOM_NORMAL).typed(F64)) == (spec((4, 4), F64),)


def test_a_layout_is_that_of_all_inputs() -> None:
    inputs = example_of(MAX_POOL).laid_out(Layout.NCHW).inputs
    assert [one.layout for one in inputs if one is not None] == [Layout.NCHW]


def test_what_a_rule_refuses_has_no_outputs() -> None:
    assert outputs_of(add, example_of(add).typed(BOOL)) is None
    assert outputs_of(GEMM, example_of(add)) is None


def test_an_operator_that_no_guess_fits_needs_a_row() -> None:
    def refuse(attrs: object, specs: object) -> tuple[()]:
        raise UsageError("lonely", got="anything", need="nothing")

    lonely = operator(
        "lonely",
        type(example_of(add).attrs),
        ("x",),
        infer=refuse,
        gradient=NotDifferentiable("it is refused"),
        registry=Registry("lonely"),
        doc="An operator that takes nothing.",
    )
    with pytest.raises(UsageError, match="lonely: got no example"):
        example_of(lonely)
