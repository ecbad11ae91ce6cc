"""nnc plan --curve: what a step of training costs at ever smaller limits on its memory.

limits   POINTS of them, in even steps from the arena without a limit to the smallest that can be met
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.cli.terminal import Json, add_row, count, errors, output, table
from nnc.errors import MemoryLimitError, OutOfMemoryError
from nnc.planning import Curve
from nnc.symbolic import Compiled

POINTS = 20


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A limit in bytes, the arena within it, its work over that without a limit, and how many execs run again."""

    limit: int
    arena: int
    work_ratio: float
    repeated: int


def curve_of(free: Compiled, train: Callable[[int], Compiled]) -> list[CurvePoint]:
    """What `train` plans at each limit, and `free` without one; a line of standard error tells how far it is."""
    most = free.memory().arena
    with errors().status("the smallest limit") as status:
        least = _smallest(train, most)
        points = [_point(most, free)]
        for number in range(1, POINTS):
            limit = most - (most - least) * number // (POINTS - 1)
            status.update(f"limit {number + 1} of {POINTS}: {limit:,} bytes")
            points.append(_point(limit, train(limit)))
    return points


def _smallest(train: Callable[[int], Compiled], most: int) -> int:
    """The least arena that was found; `most` where none was refused."""
    try:
        return min(train(1).memory().arena, most)
    except OutOfMemoryError:
        raise
    except MemoryLimitError as error:
        return error.smallest


def _point(limit: int, compiled: Compiled) -> CurvePoint:
    budget = compiled.budget
    again = (1.0, 0) if budget is None else (budget.work_ratio, budget.repeated)
    return CurvePoint(limit, compiled.memory().arena, *again)


def rows_of(points: Sequence[CurvePoint]) -> list[Json]:
    """The points as JSON."""
    return [
        {
            "limit_bytes": point.limit,
            "arena_bytes": point.arena,
            "work_ratio": round(point.work_ratio, 5),
            "repeated": point.repeated,
        }
        for point in points
    ]


def print_curve(points: Sequence[CurvePoint], name: str) -> None:
    """The points as a table."""
    shown = table(name, "share", "limit", "arena", "work", "execs again", numbers=("limit", "arena", "work"))
    for point in points:
        share, work = f"{point.limit / max(points[0].limit, 1):.0%}", f"× {point.work_ratio:.3f}"
        add_row(shown, share, count(point.limit), count(point.arena), work, str(point.repeated))
    output().print(shown)


def curves_of(points: Sequence[CurvePoint]) -> list[Curve]:
    """The points for the page, from the arena without a limit to the smallest."""
    work, arena = [point.work_ratio for point in points], [float(point.arena) for point in points]
    return [Curve("work at ever smaller limits", work), Curve("bytes of the arena", arena)]
