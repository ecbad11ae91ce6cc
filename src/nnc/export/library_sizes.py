"""Programs of several sizes as one library: which sizes are open, what ports look like, and constants that they share.

opened, choices = opened_sizes(batch=range(1, 9), sizes={"length": (8, 16)})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.core.running.library_program import MemorySpan
from nnc.core.values.platform import OpenDimensions
from nnc.errors import UsageError
from nnc.export.description import ALIGNMENT, Described, MemoryRow, Port

# A size, or those that callers choose from.
Size: TypeAlias = int | Sequence[int]
# Each has its launches in the code, and its program in memory while the library is made.
MOST_SIZES = 64


@dataclass(frozen=True, slots=True)
class ChosenSizes:
    """The batch of a model, and the open dimensions of a file, of one program."""

    batch: int
    sizes: Mapping[str, int]


def opened_sizes(batch: Size, sizes: Mapping[str, Size]) -> tuple[OpenDimensions | None, list[ChosenSizes]]:
    """What is open, and what each program is made for; UsageError for sizes out of order, or for too many.

    The `batch` is that of a model; a file has dimensions by any name, this one too.
    """
    given = {"batch": batch, **sizes}
    choices = tuple((name, tuple(size)) for name, size in given.items() if not isinstance(size, int))
    fixed = {name: size for name, size in given.items() if isinstance(size, int)}
    opened = OpenDimensions(choices)
    for name, numbers in choices:
        if not numbers or min(numbers) < 1 or list(numbers) != sorted(set(numbers)):
            need = "sizes of at least 1, each larger than the one before"
            raise UsageError("library", got=f"{name}={numbers}", need=need, fix=f"{name}=range(1, 9)")
    if prod(len(numbers) for _, numbers in choices) > MOST_SIZES:
        got = " by ".join(f"{len(numbers)} sizes of {name}" for name, numbers in choices)
        raise UsageError("library", got=got, need=f"at most {MOST_SIZES} in all", fix="fewer sizes, or padding")
    rows = [fixed | dict(zip(opened.names, row, strict=True)) for row in opened.rows]
    return opened if choices else None, [ChosenSizes(row["batch"], {name: row[name] for name in sizes}) for row in rows]


def with_shared_constants(described: Sequence[Described], most_inside: int) -> list[Described]:
    """The same descriptions, whose constants lie in one block: equal bytes are there once."""
    places, parts, rows = dict[bytes, int](), list[bytes](), dict[MemoryRow, None]()
    end, moved = 0, list[list[MemorySpan]]()
    for entry in described:
        spans = []
        for span in entry.program.constants:
            part = entry.constant_content[span.offset : span.offset + span.nbytes]
            if part not in places:
                padding = -end % ALIGNMENT
                places[part] = end + padding
                parts += [bytes(padding), part]
                end += padding + len(part)
            spans.append(replace(span, offset=places[part]))
            rows |= dict.fromkeys(_moved(entry, span, places[part]))
        moved.append(spans)
    content = b"".join(parts)
    inside = content if len(content) <= most_inside else None
    return [
        replace(
            entry,
            program=replace(entry.program, constants=tuple(spans), constant_bytes=end, content=inside),
            constants=tuple(rows),
            constant_content=content,
        )
        for entry, spans in zip(described, moved, strict=True)
    ]


def _moved(entry: Described, span: MemorySpan, place: int) -> Iterator[MemoryRow]:
    """What lies in the span, where it begins at another place."""
    for row in entry.constants:
        if span.offset <= row.offset < span.offset + span.nbytes:
            yield replace(row, offset=row.offset - span.offset + place)


def check_alike(described: Sequence[Described]) -> None:
    """UsageError where programs of two sizes have other ports, or another state."""
    forms = [
        (
            [(port.name, port.spec.dtype, len(port.spec.shape)) for port in (*entry.inputs, *entry.outputs)],
            entry.state,
            entry.program.initial,
        )
        for entry in described
    ]
    if any(form != forms[0] for form in forms):
        got = "inputs, outputs or a state that sizes change"
        raise UsageError("library", got=got, need="the same of each size", fix="a library for each size")


def open_shapes(opened: OpenDimensions, described: Sequence[Described]) -> dict[str, str]:
    """Ports as the header tells of them: an axis is a size by name, or `name*k`."""
    texts = {}
    for ports in _ports(described):
        axes = [_axis(opened, [port.spec.shape[axis] for port in ports]) for axis in range(len(ports[0].spec.shape))]
        texts[ports[0].name] = f"{ports[0].spec.dtype.name}[{', '.join(axes)}]"
    return texts


def open_lengths(described: Sequence[Described]) -> dict[str, tuple[int, ...]]:
    """Elements of each port at each row of sizes."""
    return {ports[0].name: tuple(port.spec.elements for port in ports) for ports in _ports(described)}


def _ports(described: Sequence[Described]) -> Iterator[tuple[Port, ...]]:
    """Each port as it is at each row of sizes."""
    return zip(*((*entry.inputs, *entry.outputs) for entry in described), strict=True)


def _axis(opened: OpenDimensions, lengths: Sequence[int]) -> str:
    if len(set(lengths)) == 1 and len(lengths) > 1:
        return str(lengths[0])
    for name, sizes in zip(opened.names, zip(*opened.rows, strict=True), strict=True):
        factor, rest = divmod(lengths[-1], sizes[-1])
        if not rest and all(length == factor * size for length, size in zip(lengths, sizes, strict=True)):
            return name if factor == 1 else f"{name}*{factor}"
    return f"up to {max(lengths)}"
