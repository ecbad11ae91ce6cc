from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from nnc.symbolic.region import EXACT_LIMIT, Region, covers, overlaps


@st.composite
def regions(draw: st.DrawFn) -> Region:
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank)))
    strides = tuple(draw(st.lists(st.integers(-6, 12), min_size=rank, max_size=rank)))
    return Region(shape, draw(st.integers(0, 20)), strides)


@st.composite
def pairs_of_one_grid(draw: st.DrawFn) -> tuple[Region, Region]:
    strides = draw(st.sampled_from([(1,), (2,), (4, 1), (8, 2), (12, 4, 1), (12, 4, 2)]))
    shapes = st.tuples(*(st.integers(1, 5) for _ in strides))
    first, second = (Region(draw(shapes), draw(st.integers(0, 30)), strides) for _ in range(2))
    return first, second


def exact(one: Region, other: Region) -> bool:
    empty = 0 in one.shape or 0 in other.shape
    return not empty and not one.elements().isdisjoint(other.elements())


@given(regions(), regions())
def test_overlap_is_exact_for_small_regions(one: Region, other: Region) -> None:
    assert overlaps(one, other) == overlaps(other, one) == exact(one, other)


@given(pairs_of_one_grid())
def test_overlap_is_exact_on_a_common_grid_even_where_rows_run_over(pair: tuple[Region, Region]) -> None:
    assert overlaps(*pair) == exact(*pair)


@st.composite
def cuts_of_a_tensor(draw: st.DrawFn) -> tuple[list[Region], Region]:
    """Parts of a contiguous tensor, some of their axes cut in two, and the tensor in fewer axes."""
    rows, heads, width = (draw(st.integers(1, 4)) for _ in range(3))
    line = 3 * heads * width
    thirds = draw(st.lists(st.integers(0, 2), unique=True, min_size=1, max_size=3))
    cut = draw(st.booleans())
    shape, strides = ((rows, heads, width), (line, width, 1)) if cut else ((rows, heads * width), (line, 1))
    whole = draw(st.sampled_from([Region((rows * line,), 0, (1,)), Region((rows, line), 0, (line, 1))]))
    return [Region(shape, third * heads * width, strides) for third in thirds], whole


@given(cuts_of_a_tensor())
def test_covering_and_overlap_are_exact_where_axes_are_cut(cuts: tuple[list[Region], Region]) -> None:
    parts, whole = cuts
    assert covers(parts, whole) == (whole.elements() <= set().union(*(part.elements() for part in parts)))
    assert all(overlaps(part, whole) for part in parts)


@given(st.lists(regions(), min_size=1, max_size=3), regions())
def test_covering_by_parts_that_do_not_meet_is_exact(parts: list[Region], whole: Region) -> None:
    if all(part.is_injective() for part in (*parts, whole)):
        apart = [part for place, part in enumerate(parts) if not any(exact(part, one) for one in parts[:place])]
        assert covers(apart, whole) == (whole.elements() <= set().union(*(part.elements() for part in apart)))


@given(regions())
def test_a_region_is_injective_when_it_names_each_element_once(region: Region) -> None:
    assert region.is_injective() == (len(region.elements()) == math.prod(region.shape))


@given(regions(), st.integers(0, 60))
def test_inside_and_bounds_tell_of_all_elements(region: Region, elements: int) -> None:
    named = region.elements()
    first, last = region.bounds()
    if 0 in region.shape:
        assert first == last
        return
    assert (first, last) == (min(named), max(named) + 1)
    assert region.inside(elements) == all(0 <= element < elements for element in named)


def test_large_boxes_are_told_apart_and_large_other_regions_count_as_meeting() -> None:
    wide = EXACT_LIMIT * 4
    left, right = Region((100, wide // 2), 0, (wide, 1)), Region((100, wide // 2), wide // 2, (wide, 1))
    assert not overlaps(left, right)
    assert overlaps(left, left)
    assert overlaps(Region((wide,), 0, (2,)), Region((wide,), 1, (4,)))


def test_interleaved_columns_do_not_meet() -> None:
    assert not overlaps(Region((5,), 0, (2,)), Region((5,), 1, (2,)))


def test_a_view_across_rows_meets_the_first_column_of_the_next_row() -> None:
    assert overlaps(Region((2, 4), 2, (4, 1)), Region((2, 1), 4, (4, 1)))
