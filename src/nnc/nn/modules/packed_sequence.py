"""Sequences of several lengths side by side, as recurrent layers take them: `nn.utils.rnn` packs and pads them."""

from __future__ import annotations

from typing import Any, NamedTuple


class PackedSequence(NamedTuple):
    """x[steps, batch, features], whose steps are real where mask[steps, batch] is.

    >>> packed = nn.utils.rnn.pack_padded_sequence(nnc.ones((3, 2, 4)), [3, 1])
    >>> packed.mask.tolist()
    [[True, True], [True, False], [True, False]]
    """

    steps: Any
    mask: Any
