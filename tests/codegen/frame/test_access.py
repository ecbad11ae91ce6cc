from __future__ import annotations

from nnc.codegen.frame.access import broadcast, collapse, contiguous


def test_axes_that_all_operands_walk_in_one_step_are_merged() -> None:
    shape, strides = collapse((2, 3, 4), [(12, 4, 1), (0, 4, 1)])
    assert shape == (2, 12)
    assert strides == ((12, 1), (0, 1))


def test_axes_of_size_one_vanish() -> None:
    assert collapse((1, 5, 1), [(9, 2, 7)]) == ((5,), ((2,),))
    assert collapse((), [()]) == ((), ((),))


def test_broadcast_axes_do_not_move() -> None:
    assert broadcast((3, 1), (1, 1), 3) == (0, 1, 0)
    assert contiguous((2, 0, 3)) == (3, 3, 1)
