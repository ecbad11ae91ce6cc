"""Commands are values that print what differs from the defaults."""

from __future__ import annotations

import pytest

from nnc.core.command import Command
from nnc.errors import AttributeValueError
from nnc.ops.gemm import GEMM, GemmAttrs
from nnc.ops.pointwise import RELU, AffineAttrs
from nnc.ops.rules import NoAttrs


def test_equal_values_are_equal_commands() -> None:
    assert Command(GEMM, GemmAttrs(True)) == Command(GEMM, GemmAttrs(transpose_a=True))
    assert Command(GEMM, GemmAttrs(True)) != Command(GEMM, GemmAttrs())
    assert len({Command(RELU, NoAttrs()), Command(RELU, NoAttrs())}) == 1


def test_text() -> None:
    assert str(Command(GEMM, GemmAttrs(transpose_b=True))) == "gemm(transpose_b=True)"
    assert str(Command(GEMM, GemmAttrs())) == "gemm"
    assert str(Command(RELU, NoAttrs())) == "relu"


def test_attributes_of_another_operator() -> None:
    with pytest.raises(AttributeValueError, match="gemm: got AffineAttrs; need attributes of type GemmAttrs"):
        Command(GEMM, AffineAttrs())
