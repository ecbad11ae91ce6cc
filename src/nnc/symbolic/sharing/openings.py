"""Which sizes are open: first ones are taken as they are, and axes that have differed since remember their sizes.

    templates.draft(kind, shapes, make)     a draft by a template whose guards these shapes meet
                                            else make(opening), with open axes: a template, which is kept
                                            None at the first shapes of a kind, which are drafted as they are

What is the same at all sizes of a `kind`, such as element types, belongs to it
(docs/design/0033-programs-for-open-sizes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Generic, Protocol, TypeVar

from nnc.classes import dataclass
from nnc.core.values.derived import Formulas, Known
from nnc.core.values.sizes import SizeTrace
from nnc.core.values.spec import Shape

# Templates of a kind that are kept; after this many in a row that served nobody, no more are made.
MOST_TEMPLATES, MOST_UNUSED = 16, 4
D = TypeVar("D", covariant=True)
Shapes = Mapping[str, Shape]
# Axes by the name of an input.
Axes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class OpenShapes:
    """Shapes whose axes `opened` may have any sizes that meet the guards of `formulas`."""

    opened: Axes
    shapes: Shapes
    formulas: Formulas

    def numbers(self, shapes: Shapes) -> list[Known] | None:
        """All numbers of the trace at these shapes; None where something else would be built for them."""
        if not self._fits(shapes):
            return None
        try:
            return self.formulas.at([shapes[name][axis] for name, axis in self.opened])
        except ArithmeticError:
            return None

    def _fits(self, shapes: Shapes) -> bool:
        """Whether all axes that are not open are as they were."""
        if shapes.keys() != self.shapes.keys():
            return False
        return all(
            len(shape) == len(self.shapes[name])
            and all(size == self.shapes[name][axis] or (name, axis) in self.opened for axis, size in enumerate(shape))
            for name, shape in shapes.items()
        )


@dataclass(slots=True, eq=False)
class Opening:
    """Shapes of inputs, some of whose sizes remember where they come from, until it is closed."""

    trace: SizeTrace
    opened: Axes
    shapes: Shapes

    def close(self) -> OpenShapes:
        """What was asked of the sizes."""
        formulas = self.trace.close()
        shapes = {name: tuple([int(size) for size in shape]) for name, shape in self.shapes.items()}
        return OpenShapes(self.opened, shapes, formulas)


class Template(Protocol[D]):
    """What was made with open sizes."""

    def at(self, shapes: Shapes) -> D | None:
        """The same for these shapes; None where they do not meet its guards."""
        ...


@dataclass(slots=True, eq=False)
class Templates(Generic[D]):
    """Templates by the kind of what they make, and the first shapes of each kind."""

    _first: dict[Hashable, Shapes] = field(default_factory=dict)
    _opened: dict[Hashable, Axes] = field(default_factory=dict)
    _kept: dict[Hashable, list[Template[D]]] = field(default_factory=dict)
    _unused: dict[Hashable, int] = field(default_factory=dict)

    def draft(
        self,
        kind: Hashable,
        shapes: Shapes,
        make: Callable[[Opening], Template[D] | None],
        named: Sequence[Axes] = (),
    ) -> D | None:
        """A draft for these shapes; None where there is no template for them: they are drafted as they are.

        `make` gives None for sizes that it refuses. What is wrong with them is told where they are plain ones. The axes
        `named` are open at first shapes too, and all of a group have one size, as the caller has seen.
        """
        draft = self._find(kind, shapes)
        if draft is not None or (opening := self._opening(kind, shapes, named)) is None:
            return draft
        try:
            template = make(opening)
        finally:
            opening.trace.close()
        if template is None:
            return None
        self._keep(kind, template)
        return template.at(shapes)

    def note(self, kind: Hashable, shapes: Shapes) -> None:
        """Shapes that are served without a draft: axes that differ from theirs are open from now on."""
        self._first.setdefault(kind, dict(shapes))

    def keep_only(self, kinds: Collection[Hashable]) -> None:
        """Forget what is of other kinds, which may hold what nobody else does."""
        for table in (self._first, self._opened, self._kept, self._unused):
            for kind in table.keys() - kinds:
                del table[kind]

    def _find(self, kind: Hashable, shapes: Shapes) -> D | None:
        """A draft by a template that there is."""
        kept = self._kept.get(kind, [])
        for template in kept:
            if (draft := template.at(shapes)) is not None:
                self._unused[kind] = 0
                # What serves often is asked first.
                kept.remove(template)
                kept.insert(0, template)
                return draft
        return None

    def _opening(self, kind: Hashable, shapes: Shapes, named: Sequence[Axes]) -> Opening | None:
        """The shapes with open axes, which are named or whose sizes have differed so far; None where none is open."""
        first = self._first.setdefault(kind, dict(shapes))
        differing = tuple(
            (name, axis)
            for name, shape in shapes.items()
            for axis, size in enumerate(shape)
            if size != first[name][axis]
        )
        opened = tuple(dict.fromkeys((*self._opened.get(kind, ()), *chain(*named), *differing)))
        if not opened or self._unused.get(kind, 0) >= MOST_UNUSED:
            return None
        self._opened[kind] = opened
        trace = SizeTrace()
        sizes = {place: trace.read(shapes[place[0]][place[1]]) for place in opened}
        sizes |= {place: sizes[group[0]] for group in named for place in group}
        read = {
            name: tuple([sizes.get((name, axis), size) for axis, size in enumerate(shape)])
            for name, shape in shapes.items()
        }
        return Opening(trace, opened, read)

    def _keep(self, kind: Hashable, template: Template[D]) -> None:
        """Keep a template; the one that nobody has used longest goes."""
        self._unused[kind] = self._unused.get(kind, 0) + 1
        kept = self._kept.setdefault(kind, [])
        kept.insert(0, template)
        del kept[MOST_TEMPLATES:]
