"""What all dives of the exact search into an instance share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnc.planning.instance import Instance
from nnc.planning.solvers.normalize import conflicts, totals


@dataclass(frozen=True, slots=True)
class Tables:
    """An instance as the dives look at it.

    `neighbours[i]` meet block `i`, all within the sections `range(*spans[i])`; `crossing[s]` are alive in section `s`,
    which holds `totals[s]` bytes; blocks of one kind have equal life, size and alignment.
    """

    lower: list[int]
    upper: list[int]
    size: list[int]
    alignment: list[int]
    kind: list[int]
    neighbours: list[list[int]]
    spans: list[tuple[int, int]]
    crossing: list[list[int]]
    totals: list[int]

    @classmethod
    def of(cls, instance: Instance) -> Tables:
        """The tables of a plain instance."""
        lower, upper = instance.lower, instance.upper
        neighbours = conflicts(instance)
        crossing: list[list[int]] = [[] for _ in range(instance.steps)]
        kinds: dict[tuple[int, int, int, int], int] = {}
        for i in range(instance.count):
            kinds.setdefault((lower[i], upper[i], instance.size[i], instance.alignment[i]), i)
            for section in range(lower[i], upper[i]):
                crossing[section].append(i)
        columns = zip(lower, upper, instance.size, instance.alignment, strict=True)
        spans = [
            (min([lower[i], *map(lower.__getitem__, row)]), max([upper[i], *map(upper.__getitem__, row)]))
            for i, row in enumerate(neighbours)
        ]
        kind = [kinds[column] for column in columns]
        return cls(lower, upper, instance.size, instance.alignment, kind, neighbours, spans, crossing, totals(instance))


def ranked(members: Iterable[int], keys: str, tables: Tables, total: list[int]) -> list[int]:
    """`members` by the letters of `keys` as in `skyline.rank`, over the bytes `total` that the sections hold now."""
    lower, upper, size = tables.lower, tables.upper, tables.size
    chosen = list(members)
    columns = []
    for key in keys:
        if key == "T":
            columns.append([-max(total[lower[i] : upper[i]]) for i in chosen])
        elif key == "W":
            columns.append([lower[i] - upper[i] for i in chosen])
        else:
            columns.append([(lower[i] - upper[i]) * size[i] for i in chosen])
    return [entry[-1] for entry in sorted(zip(*columns, (lower[i] for i in chosen), chosen, strict=True))]
