"""Commands are values that print what differs from the defaults."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.dynamic import DynamicGraph
from nnc.errors import AttributeValueError
from nnc.ops.elementwise.pointwise import AFFINE, AffineAttrs, relu
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs


def test_equal_values_are_equal_commands() -> None:
    assert Command(GEMM, GemmAttrs(True)) == Command(GEMM, GemmAttrs(transpose_a=True))
    assert Command(GEMM, GemmAttrs(True)) != Command(GEMM, GemmAttrs())
    assert len({Command(relu, NoAttrs()), Command(relu, NoAttrs())}) == 1


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (2.0**53, 2**53 + 1), (1.0, 2.0)])
def test_attributes_that_a_kernel_could_tell_apart_are_different(one: float, other: float) -> None:
    assert Command(AFFINE, AffineAttrs(one)) != Command(AFFINE, AffineAttrs(other))
    assert Command(FILL, FillAttrs(one, spec((2,)))) != Command(FILL, FillAttrs(other, spec((2,))))


def test_a_number_has_one_form() -> None:
    assert len({Command(AFFINE, AffineAttrs(one)) for one in (1, 1.0, True, np.int8(1), np.float32(1))}) == 1


def test_zeros_of_both_signs_have_kernels_of_their_own() -> None:
    x = DynamicGraph().variable([1.0, 2.0])
    assert [np.signbit(ops.fill_like(x, zero).numpy()).all() for zero in (0.0, -0.0)] == [False, True]
    assert [np.signbit(ops.affine(x, -0.0, zero).numpy()).all() for zero in (0.0, -0.0)] == [False, True]


def test_text() -> None:
    assert str(Command(GEMM, GemmAttrs(transpose_b=True))) == "gemm(transpose_b=True)"
    assert str(Command(GEMM, GemmAttrs())) == "gemm"
    assert str(Command(relu, NoAttrs())) == "relu"


def test_attributes_of_another_operator() -> None:
    with pytest.raises(AttributeValueError, match="gemm: got AffineAttrs; need attributes of type GemmAttrs"):
        Command(GEMM, AffineAttrs())


def test_a_flag_is_true_or_false() -> None:
    x = DynamicGraph().variable([1.0, 2.0])
    with pytest.raises(AttributeValueError, match="reduce_sum: got keepdims='x'; need True or False"):
        x.sum(keepdims="x")
    with pytest.raises(AttributeValueError, match="sort: got descending=2; need True or False"):
        ops.sort(x, descending=2)
    assert x.sum(keepdims=np.True_).shape == (1,)
