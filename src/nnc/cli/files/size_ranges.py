"""Sizes of open dimensions on the command line, several of them at once: NAME=1,8 or NAME=32..320:32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from nnc.cli.files.onnx_model import named
from nnc.errors import UsageError

# A mistyped range is told before it runs for a day.
MOST_RUNS = 10_000


def combinations(option: str, texts: Sequence[str]) -> Iterator[dict[str, int]]:
    """Each size of a dimension with each of the others."""
    ranges, runs = [size_range(option, text) for text in texts], 1
    for _, values in ranges:
        runs *= len(values)
    if runs > MOST_RUNS:
        raise UsageError(option, got=f"{runs:,} combinations", need=f"at most {MOST_RUNS:,}", fix="name fewer sizes")
    names = [name for name, _ in ranges]
    return (dict(zip(names, values, strict=True)) for values in product(*(values for _, values in ranges)))


def text_of(sizes: Mapping[str, int]) -> str:
    """As a row of a table says them."""
    return ", ".join(f"{label}={value}" for label, value in sizes.items()) or "as in the file"


def is_range(text: str) -> bool:
    """Whether a text names more than one size."""
    value = text.rpartition("=")[2]
    return "," in value or ".." in value


def size_range(option: str, text: str) -> tuple[str, Sequence[int]]:
    """NAME and the sizes of `1,8` or `32..320:32`."""
    name, value = named(option, text)
    first, dots, rest = value.partition("..")
    if not dots:
        return name, [_number(option, text, part) for part in value.split(",")]
    last, colon, step = rest.partition(":")
    stride = _number(option, text, step) if colon else 1
    sizes = range(_number(option, text, first), _number(option, text, last) + 1, max(stride, 1))
    if not sizes or not stride:
        raise _wrong(option, text)
    return name, sizes


def _number(option: str, text: str, part: str) -> int:
    if not part.isdecimal():
        raise _wrong(option, text)
    return int(part)


def _wrong(option: str, text: str) -> UsageError:
    return UsageError(option, got=repr(text), need="NAME=1,8 or NAME=FIRST..LAST or NAME=FIRST..LAST:STEP")
