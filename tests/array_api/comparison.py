"""Checks on `nnc.array_api` and on another implementation of the standard: equal shapes, element types and values."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.array_api.checks import Check

import nnc.array_api
from nnc.core.values.dtype import TOLERANCE, dtype_of
from nnc.dynamic.arrays.array import ArrayOperand

# Functions of which the standard says what sign a zero has.
SIGNED = {
    *("add", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "divide", "expm1", "floor", "log1p"),
    *("multiply", "negative", "remainder", "round", "sin", "sinh", "sqrt", "subtract", "tan", "tanh", "trunc"),
}


@dataclass(slots=True)
class Report:
    """How many checks of each function agreed, what differed, and what the other side cannot answer."""

    agreed: Counter[str] = field(default_factory=Counter)
    differed: dict[str, list[str]] = field(default_factory=dict)
    unasked: Counter[str] = field(default_factory=Counter)

    @property
    def functions(self) -> set[str]:
        """The functions that were compared."""
        return {*self.agreed, *self.differed}

    def counts(self) -> Mapping[str, object]:
        """As JSON has it."""
        whole = self.functions - self.differed.keys()
        return {
            "functions": len(self.functions),
            "functions that agree": len(whole),
            "checks": sum(self.agreed.values()) + sum(map(len, self.differed.values())),
            "checks that agree": sum(self.agreed.values()),
            "not answered by the other": dict(self.unasked),
            "differences": {name: lines[:5] for name, lines in sorted(self.differed.items())},
        }


def compare(checks: Iterable[Check], other: Any) -> Report:  # a namespace of the standard
    """Run each check on both sides."""
    report = Report()
    for check in checks:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                want = check.call(other, *(other.asarray(one, copy=True) for one in check.arrays))
            except Exception:  # whatever another library raises where it has no answer
                report.unasked[check.name] += 1
                continue
            fault = fault_of(check, want)
        if fault:
            report.differed.setdefault(check.name, []).append(f"{check}: {fault}")
        else:
            report.agreed[check.name] += 1
    return report


def fault_of(check: Check, want: Any) -> str:
    """What is wrong with our answer; empty when nothing is."""
    xp = nnc.array_api
    try:
        got = check.call(xp, *(xp.asarray(one) for one in check.arrays))
    except Exception as error:  # every error is a difference
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return difference(got, want) or (other_zeros(got, want) if check.name in SIGNED else "")


def other_zeros(got: Any, want: Any) -> str:
    """Whether zeros have other signs."""
    mine, theirs = got.numpy(), np.asarray(want)
    signs = (np.signbit(mine.real) == np.signbit(theirs.real)) | (mine != 0)
    return "" if signs.all() else "zeros of another sign"


def difference(got: Any, want: Any) -> str:
    """How two answers differ: arrays, several of them, or other values."""
    if isinstance(got, tuple | list) and isinstance(want, tuple | list):
        if len(got) != len(want):
            return f"{len(got)} results; need {len(want)}"
        return next(filter(None, (difference(one, other) for one, other in zip(got, want, strict=True))), "")
    if not isinstance(got, ArrayOperand):
        return "" if got == want else f"got {got}; need {want}"
    mine, theirs = got.numpy(), np.asarray(want)
    if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
        return f"got {mine.dtype}{list(mine.shape)}; need {theirs.dtype}{list(theirs.shape)}"
    row = TOLERANCE[dtype_of(theirs.dtype)]
    if mine.dtype.kind == "c":
        # Part by part: of numbers with an infinite and an undefined part no difference is defined.
        mine, theirs = (np.stack([one.real, one.imag], -1) for one in (mine, theirs))
    exact = mine.dtype.kind in "biu"
    near = mine == theirs if exact else np.isclose(mine, theirs, row.relative, row.absolute, equal_nan=True)
    place = next(map(tuple, np.argwhere(~near)), None)
    return "" if place is None else f"got {mine[place]!r} at {place}; need {theirs[place]!r}"
