"""Turns of positions beyond those of training: factors that divide frequencies, and one that multiplies scores.

linear    factors[i] = s                                                     (Chen et al. 2023)
llama3    s below a frequency, 1 above another, and between 1 / ((1 - m) / s + m)
yarn      between the same two, by the pair's number                         (Peng et al. 2023)
longrope  factors of the file: `short` up to the context of training, `long` beyond it   (Ding et al. 2024)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.language.architectures.given_values import GivenValues

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Turns:
    """Factors of each pair (none: all 1), and the magnitude of what is turned."""

    factors: tuple[float, ...] = ()
    magnitude: float = 1.0


@dataclass(frozen=True, slots=True)
class RotaryPlace:
    """What scaling depends on: the base, pairs, positions that are asked for, and those that the file names."""

    base: float
    pairs: int
    context: int
    most: int

    @property
    def frequencies(self) -> Floats:
        """base^(-i / pairs)"""
        return np.asarray(self.base ** (-np.arange(self.pairs) / self.pairs))


def _none(values: GivenValues, place: RotaryPlace) -> Turns:
    return Turns()


def _linear(values: GivenValues, place: RotaryPlace) -> Turns:
    return Turns((_factor(values),) * place.pairs)


def _factor(values: GivenValues) -> float:
    factor = values.number("factor")
    if factor < 1.0:
        raise FormatError(values.place, got=f"factor {factor:g}", need="1 or more")
    return factor


def _llama3(values: GivenValues, place: RotaryPlace) -> Turns:
    factor, low, high = _factor(values), values.number("low_freq_factor"), values.number("high_freq_factor")
    original = values.integer("original_max_position_embeddings")
    if not high > low > 0 or not original:
        raise FormatError(values.place, got="frequency factors in no order", need="low_freq_factor < high_freq_factor")
    turns = original * place.frequencies / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return Turns(tuple((1.0 / ((1 - share) / factor + share)).tolist()))


def _yarn(values: GivenValues, place: RotaryPlace) -> Turns:
    original = values.integer("original_max_position_embeddings", "original_context_length", default=place.most)
    factor = _factor(values)
    fast, slow = (
        values.number("beta_fast", "yarn_beta_fast", default=32.0),
        values.number("beta_slow", "yarn_beta_slow", default=1.0),
    )

    def pair_of(turns: float) -> float:
        return place.pairs * math.log(original / (turns * 2 * math.pi)) / math.log(place.base)

    if not fast > slow > 0 or place.base <= 1 or original < 1:
        raise FormatError(values.place, got="yarn without an order of turns", need="beta_fast > beta_slow > 0")
    first, last = pair_of(fast), pair_of(slow)
    if values.flag("truncate", default=True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * place.pairs - 1)
    ramp = np.clip((np.arange(place.pairs) - first) / max(last - first, 0.001), 0.0, 1.0)
    usual = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
    return Turns(tuple((1.0 / (ramp / factor + 1 - ramp)).tolist()), values.number("attention_factor", default=usual))


def _long(values: GivenValues, place: RotaryPlace) -> Turns:
    original = values.integer("original_max_position_embeddings", "original_context_length", default=place.most)
    factors = values.numbers("long_factor" if place.context > original else "short_factor")
    if len(factors) != place.pairs or min(factors) <= 0 or original < 2:
        raise FormatError(values.place, got=f"{len(factors)} factors", need=f"{place.pairs} above 0, one for each pair")
    factor = values.number("factor", default=place.most / original)
    usual = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return Turns(factors, values.number("attention_factor", "attn_factor", default=usual))


KINDS: Mapping[str, Callable[[GivenValues, RotaryPlace], Turns]] = MappingProxyType(
    {
        "": _none,
        "none": _none,
        "default": _none,
        # Nothing is scaled up to the context that the file names, and no more is allowed.
        "dynamic": _none,
        "linear": _linear,
        "llama3": _llama3,
        "yarn": _yarn,
        "longrope": _long,
        "su": _long,
    }
)


def turns_of(values: GivenValues, place: RotaryPlace) -> Turns:
    """What a file's scaling makes of these positions; FormatError for a kind that is not known."""
    kind = values.text("rope_type", "type", default="")
    if kind not in KINDS:
        raise FormatError(values.place, got=f"positions scaled by {kind!r}", need=f"one of {', '.join(KINDS)[2:]}")
    return KINDS[kind](values, place)
