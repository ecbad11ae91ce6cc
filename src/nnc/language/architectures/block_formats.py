"""Which format of blocks a matrix gets where one is asked for, as llama.cpp's mixtures have it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nnc.core.values.blocks import FORMATS

# Where rows are no whole blocks of 256: what llama.cpp takes instead, in blocks of 32.
SHORT_ROWS: Mapping[str, str] = MappingProxyType(
    {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
)


def format_for(to: str, row: int, *, table: bool) -> str:
    """The format of a matrix with `row` weights in a row: `to`, or f16 where no block fits.

    A `table` of tokens, or a head, gives all scores: it keeps 6 or 8 bits.
    """
    if to not in FORMATS:
        return to
    if table:
        to = "q6_k" if to.endswith("_k") else "q8_0"
    if row % FORMATS[to].size:
        to = SHORT_ROWS.get(to, to)
    return "f16" if row % FORMATS[to].size else to
