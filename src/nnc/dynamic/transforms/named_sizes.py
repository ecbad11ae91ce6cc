"""Sizes of arguments by name: which are the same, which are fixed, and in which range they are.

sizes = NamedSizes.of({"x": ("n", 64), "y": ("n",), "n": range(1, 513)})
sizes.groups({"x": (8, 64), "y": (8,)})        the axes that have each name: (("x", 0), ("y", 0))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from nnc.arguments import shown
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.spec import Shape
from nnc.errors import ShapeError, UsageError

# Of an axis its name, its size, or None where it may be anything; of a name the sizes that it may have.
AxisSize: TypeAlias = str | int | None
Sizes: TypeAlias = Mapping[str, Sequence[AxisSize] | range]
# Axes by the name of an argument.
Axes: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NamedSizes:
    """`axes` by the name of an argument, `ranges` by the name of a size."""

    axes: Mapping[str, tuple[AxisSize, ...]]
    ranges: Mapping[str, range]

    @classmethod
    def of(cls, sizes: Sizes | None) -> NamedSizes:
        """What a caller says; UsageError for what says nothing."""
        axes, ranges = dict[str, tuple[AxisSize, ...]](), dict[str, range]()
        for name, entry in (sizes or {}).items():
            if isinstance(entry, range):
                ranges[name] = entry
                continue
            if isinstance(entry, str) or not isinstance(entry, Sequence):
                raise _refused(f"sizes of {name} that are {shown(entry)}")
            for size in entry:
                if isinstance(size, bool) or not isinstance(size, str | int | None):
                    raise _refused(f"a size of {name} that is {shown(size)}")
            axes[name] = tuple(entry)
        named = {size for entry in axes.values() for size in entry if isinstance(size, str)}
        if others := ranges.keys() - named:
            raise _refused(f"a range for {min(others)}, which no axis is called")
        if empty := next((name for name, sizes in ranges.items() if not sizes or sizes.step != 1), ""):
            raise _refused(f"{empty}={ranges[empty]}")
        return cls(axes, ranges)

    def groups(self, shapes: Mapping[str, Shape]) -> tuple[Axes, ...]:
        """The axes of each name; ShapeError for shapes that are not as they should be, with argument, axis and rule."""
        if absent := self.axes.keys() - shapes.keys():
            need = f"arrays among the arguments: {', '.join(shapes) or 'there is none'}"
            raise UsageError("compile", got=f"sizes of {min(absent)}", need=need, origin=caller_origin())
        groups: dict[str, list[tuple[str, int]]] = {}
        for argument, wanted in self.axes.items():
            shape = shapes[argument]
            if len(shape) != len(wanted):
                raise _differs(f"{argument} of shape {list(shape)}", f"{len(wanted)} axes: {_text(wanted)}")
            for axis, (size, name) in enumerate(zip(shape, wanted, strict=True)):
                place = f"axis {axis} of {argument}"
                if isinstance(name, str):
                    self._check(name, place, size)
                    groups.setdefault(name, []).append((argument, axis))
                    first, other = groups[name][0]
                    if size != shapes[first][other]:
                        need = f"{name}={shapes[first][other]}, the size of axis {other} of {first}"
                        raise _differs(f"{place} of size {size}", need)
                elif name is not None and size != name:
                    raise _differs(f"{place} of size {size}", f"{name}")
        return tuple(map(tuple, groups.values()))

    def _check(self, name: str, place: str, size: int) -> None:
        allowed = self.ranges.get(name)
        if allowed is not None and size not in allowed:
            raise _differs(f"{place} of size {size}", f"{name} from {allowed[0]} to {allowed[-1]}")


def _text(axes: tuple[AxisSize, ...]) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in axes)}]"


def _refused(got: str) -> UsageError:
    need = "for each argument a name, a number or None per axis, and ranges of names"
    fix = 'sizes={"x": ("n", 64), "n": range(1, 513)}'
    return UsageError("compile", got=got, need=need, fix=fix, origin=caller_origin())


def _differs(got: str, need: str) -> ShapeError:
    return ShapeError("compile", got=got, need=need, origin=caller_origin())
