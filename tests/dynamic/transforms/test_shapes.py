"""What a function gives is known before it computes."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, ShapeError, SymbolError
from nnc.symbolic import SymbolicGraph


def test_specs_stand_for_what_a_function_gives() -> None:
    huge = nnc.ShapeDtypeStruct((1 << 20, 1 << 20), nnc.bfloat16)
    made = nnc.eval_shape(
        lambda a, b, scale: {"rows": [(a @ b).sum(axis=1), b], "scale": scale}, huge, b=huge, scale=2.0
    )
    assert made["scale"] == 2.0
    assert [(entry.shape, entry.dtype) for entry in made["rows"]] == [((1 << 20,), nnc.bf16), (huge.shape, nnc.bf16)]
    net = nn.Linear(3, 2)
    assert nnc.eval_shape(net, np.ones((4, 3), np.float32)).shape == (4, 2)


def test_what_a_function_refuses_is_its_own_error() -> None:
    with pytest.raises(ShapeError, match="gemm: got a=f32"):
        nnc.eval_shape(lambda a: a @ a, nnc.spec((2, 3)))
    stranger = SymbolicGraph("other").input(nnc.spec((2,)), "x")
    with pytest.raises(SymbolError, match="compile: got .* of another graph; need values of this function"):
        nnc.eval_shape(lambda x: stranger, nnc.spec((2,)))
    with pytest.raises(ArgumentError, match="ShapeDtypeStruct"):
        nnc.ShapeDtypeStruct("text")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ArgumentError, match="eval_shape"):
        nnc.eval_shape(3)  # type: ignore[arg-type]  # as above
