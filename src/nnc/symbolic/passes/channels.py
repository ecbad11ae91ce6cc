"""Operands with one value per channel, the last axis."""

from __future__ import annotations

from nnc.core.values.spec import TensorSpec
from nnc.symbolic.ir import Symbol
from nnc.symbolic.rewrite import is_dense


def is_row(symbol: Symbol, channels: int) -> bool:
    """True for `channels` values in order along the last axis, and for one value where there is one channel."""
    last = symbol.shape[-1] if symbol.shape else 1
    return symbol.spec.elements == channels == last and is_dense(symbol.graph, symbol.key)


def as_row(symbol: Symbol) -> Symbol:
    """The same values as [channels]."""
    return _shaped(symbol, (symbol.spec.elements,))


def as_column(symbol: Symbol) -> Symbol:
    """The same values as [channels, 1]."""
    return _shaped(symbol, (symbol.spec.elements, 1))


def _shaped(symbol: Symbol, shape: tuple[int, ...]) -> Symbol:
    spec = TensorSpec(shape, symbol.spec.dtype, symbol.spec.layout, symbol.spec.device)
    return symbol if symbol.shape == shape else symbol.alias(spec, symbol.offset, (1,) * len(shape))
