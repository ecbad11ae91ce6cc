"""Every operator of this package, in one visible tuple."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from nnc.graph import Op
from nnc.ops.composed import fused
from nnc.ops.convolutions import convolutions, pooling, resize
from nnc.ops.elementwise import complex_numbers, elementary, integers, pointwise
from nnc.ops.indexing import detection, indexing, order
from nnc.ops.loss import ctc, loss
from nnc.ops.movement import broadcast, copy, fill, generate, layout, movement, transfer
from nnc.ops.normalization import normalization, softmaxes
from nnc.ops.optimizer import adafactor, optimizer
from nnc.ops.products import fourier, linear_algebra, products
from nnc.ops.quantization import blocks, quantization
from nnc.ops.random import random
from nnc.ops.reduction import reduction
from nnc.ops.sequence import attention, cached_attention, recurrent, rotary

FAMILIES = (
    fill, generate, random, copy, transfer, layout, pointwise, elementary, complex_numbers, integers, broadcast, fused,
    reduction, movement, indexing, order, resize, detection, products, convolutions, quantization, blocks, pooling,
    softmaxes, normalization, loss, attention, cached_attention, rotary, recurrent, ctc, linear_algebra,
    fourier, optimizer, adafactor,
)  # fmt: skip


# `Any`: operators of all attribute types.
def operators_of(*families: ModuleType) -> tuple[Op[Any], ...]:
    """The operators that these modules name, in the order of definition: a family's module is its table of them."""
    named = {value for family in families for value in vars(family).values() if isinstance(value, Op)}
    return tuple(sorted(named, key=lambda op: op.index))


OPERATORS = operators_of(*FAMILIES)
