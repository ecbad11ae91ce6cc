"""Problems with planted solutions: a full arena, cut into blocks at random.

    arena = steps x CAPACITY, cut in time or in bytes again and again; a share of the pieces is left out

A problem made so fits `CAPACITY` bytes, and little else is known of it: its density is close to 1, and orders that take
blocks one by one need 10 to 40 percent more. Solvers are measured and tested with them.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from nnc.planning.problem import Block, Problem

CAPACITY = 1 << 20
GRID = 1024  # all cuts are multiples of a 1024th of the steps and of the bytes


class Piece(NamedTuple):
    """The steps `[lower, upper)` and the bytes `[bottom, top)` of the arena, both in units of the grid."""

    lower: int
    upper: int
    bottom: int
    top: int

    @property
    def area(self) -> int:
        """Steps times bytes."""
        return (self.upper - self.lower) * (self.top - self.bottom)


def planted(seed: int) -> Problem:
    """The problem of this number: three of four have blocks of all shapes, the others blocks that are much alike.

    150 to 450 pieces of all shapes, of which up to a tenth is left out; or all pieces between one and three times a
    least life and size, 300 to 900 of them, of which up to two fifths are left out.
    """
    draw = Random(seed)
    alike = seed % 4 == 3
    pieces = _pieces_alike(draw) if alike else _pieces_of_all_shapes(draw, draw.randrange(150, 451))
    draw.shuffle(pieces)
    kept = pieces[int(len(pieces) * draw.random() * (0.4 if alike else 0.1)) :]
    unit = CAPACITY // GRID
    return Problem(
        tuple(
            Block(str(i), (piece.top - piece.bottom) * unit, piece.lower, piece.upper) for i, piece in enumerate(kept)
        )
    )


def _pieces_of_all_shapes(draw: Random, count: int) -> list[Piece]:
    """Of the pieces one is taken with a chance as large as its area, and cut somewhere, until there are `count`."""
    pieces = [Piece(0, GRID, 0, GRID)]
    while len(pieces) < count:
        (i,) = draw.choices(range(len(pieces)), [piece.area for piece in pieces])
        pieces[i : i + 1] = _cut(draw, pieces[i], draw.random() < 0.5, 1)
    return pieces


def _pieces_alike(draw: Random) -> list[Piece]:
    """Everything that lives or is larger than three times the least is cut."""
    life, size = draw.randrange(16, 33), draw.randrange(24, 49)
    done, left = [], [Piece(0, GRID, 0, GRID)]
    while left:
        piece = left.pop()
        ways = [True] * (piece.upper - piece.lower > 3 * life) + [False] * (piece.top - piece.bottom > 3 * size)
        if ways:
            in_time = draw.choice(ways)
            left += _cut(draw, piece, in_time, life if in_time else size)
        else:
            done.append(piece)
    return done


def _cut(draw: Random, piece: Piece, in_time: bool, least: int) -> list[Piece]:
    """Two pieces that live or are at least `least`, or the piece alone where it is too small."""
    start, end = (piece.lower, piece.upper) if in_time else (piece.bottom, piece.top)
    if end - start < 2 * least:
        return [piece]
    place = draw.randrange(start + least, end - least + 1)
    if in_time:
        return [piece._replace(upper=place), piece._replace(lower=place)]
    return [piece._replace(top=place), piece._replace(bottom=place)]
