"""Sequences of several lengths side by side, as PyTorch's `torch.nn.utils.rnn` has them.

padded = pad_sequence(sequences, batch_first=True)
packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
y, (h, c) = lstm(packed)
y, lengths = pad_packed_sequence(y, batch_first=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc import numerics as n
from nnc.arguments import Count, checked
from nnc.core.values.tensor import as_array
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.errors import ShapeError
from nnc.nn.modules.packed_sequence import PackedSequence as PackedSequence

__all__ = ["PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence"]


@checked
def pad_sequence(sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0) -> ArrayOperand:
    """x[longest, batch, …], or x[batch, longest, …]: sequences of any lengths side by side, with padding behind.

    >>> nn.utils.rnn.pad_sequence([nnc.tensor([1, 2]), nnc.tensor([3])], batch_first=True).tolist()
    [[1, 2], [3, 0]]
    """
    values = [as_operand(sequence) for sequence in sequences]
    if not values or any(value.ndim < 1 or value.shape[1:] != values[0].shape[1:] for value in values):
        got = ", ".join(str(value.spec) for value in values) or "no sequences"
        raise ShapeError("pad_sequence", got=got, need="sequences [steps, …] that differ in steps alone")
    longest = max(value.shape[0] for value in values)
    rest = [(0, 0)] * (values[0].ndim - 1)
    padded = [n.pad(x, [(0, longest - x.shape[0]), *rest], constant_values=padding_value) for x in values]
    return n.stack(padded, 0 if batch_first else 1)


@checked
def pack_padded_sequence(
    input: Any,  # noqa: ANN401  # an array of any kind
    lengths: Any,  # noqa: ANN401
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Padded sequences with their lengths, in any order: recurrent layers read as far as each of them goes."""
    x, sizes = as_operand(input), as_array(lengths).astype(np.int64).reshape(-1)
    x = n.swapaxes(x, 0, 1) if batch_first else x
    if x.ndim < 2 or sizes.shape != x.shape[1:2] or not (sizes > 0).all() or not (sizes <= x.shape[0]).all():
        got, need = f"{x.spec} and {sizes.size} lengths", "a length for each sequence, from 1 to the steps there are"
        raise ShapeError("pack_padded_sequence", got=got, need=need)
    steps = int(sizes.max())
    return PackedSequence(x[:steps], eager.tensor(np.arange(steps)[:, None] < sizes))


@checked
def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of any lengths, packed."""
    values = [as_operand(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(values), [value.shape[0] for value in values])


@checked
def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: Count | None = None
) -> tuple[ArrayOperand, ArrayOperand]:
    """(x, lengths): padded sequences, of `total_length` steps or as many as the longest has."""
    x, mask = sequence
    if padding_value:
        x = n.where(n.reshape(mask, (*mask.shape, *(1,) * (x.ndim - 2))), x, padding_value)
    if total_length is not None:
        x = n.pad(x, [(0, total_length - x.shape[0]), *[(0, 0)] * (x.ndim - 1)], constant_values=padding_value)
    return n.swapaxes(x, 0, 1) if batch_first else x, mask.sum(0)
