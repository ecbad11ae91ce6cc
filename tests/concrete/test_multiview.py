"""Multiviews: which tensor they are, what follows them, and loops built of them by hand."""

from __future__ import annotations

import pytest
from tests.concrete.eager import ADDITION, PRODUCT, graph, number, room, rooms, tensor

from nnc.concrete import (
    Carry,
    CountBelow,
    Multiview,
    MultiviewKind,
    Phi,
    Reference,
    TapeAccess,
    multiview_synchronize,
    synchronize_to_multiview,
)
from nnc.concrete.counter import Counter
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import ArgumentError, ArityError, ShapeError, UsageError


@pytest.fixture(autouse=True, params=["reference", "llvm"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops in Python, and loops that the backend runs by itself where it can."""
    monkeypatch.setattr("tests.concrete.eager.BACKEND", request.param)


def names(kind: MultiviewKind, count: int, turns: int) -> str:
    """The views, as letters, of the first turns."""
    views = rooms(count, 1)
    multiview = Multiview(views, kind, Counter())
    chosen = [multiview.select(turn) for turn in range(turns)]
    return "".join("abcdefgh"[next(n for n, view in enumerate(views) if view is one)] for one in chosen)


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        (MultiviewKind.K0N, 4, "abcdab"),
        (MultiviewKind.K1N, 4, "abcdbc"),
        (MultiviewKind.K0N, 1, "aaaaaa"),
        (MultiviewKind.K0N, 2, "ababab"),
        (MultiviewKind.K1N, 2, "abbbbb"),
        (MultiviewKind.K1N, 3, "abcbcb"),
    ],
)
def test_the_order_of_views(kind: MultiviewKind, count: int, expected: str) -> None:
    assert names(kind, count, len(expected)) == expected


def test_repeat_is_the_number_of_views_that_come_again() -> None:
    assert Multiview(rooms(4, 1), MultiviewKind.K1N, Counter()).repeat == 3
    assert Multiview(rooms(4, 1), MultiviewKind.K0N, Counter()).repeat == 4


def test_a_loop_of_two_multiviews() -> None:
    """0.32 · 2.8⁵ lands in z, and a tensor that follows the output points there too."""
    x, y, z = tensor([0.32]), tensor([2.8]), room(1)
    root, body = graph(), graph()
    xx, zz = body.multiview([x, z]), body.multiview([z, x])
    follower = synchronize_to_multiview(zz, Reference(z.spec))
    start = body.add_noop()
    body.add(PRODUCT, [xx, y], [zz], after=[start])
    root.while_loop(body, CountBelow(5), breakpoints=[start])
    root.run()
    assert number(z) == pytest.approx(0.32 * 2.8**5, rel=1e-6)
    assert follower.tensor is z
    assert zz.current is z


def test_views_of_a_loop_tensor_follow_it() -> None:
    """A strided view at offset 1 and a contiguous one at offset 4 lie where the output of the last turn lies."""
    x, scale, other = tensor([[1.0, 2.0, 3.0, 4.0]] * 2), tensor([2.0]), room(2, 4)
    root, body = graph(), graph()
    y = body.multiview([other, x])
    strided = synchronize_to_multiview(y, Reference(spec([2, 2]), 1, (4, 1)))
    flat = synchronize_to_multiview(y, Reference(spec([4]), 4, (1,)))
    body.add(PRODUCT, [body.multiview([x, other]), scale], [y])
    loop = root.while_loop(body, CountBelow(3))
    total = room(2, 2)
    root.add(ADDITION, [strided, strided], [total], after=[loop])
    root.run()
    assert y.current is other
    assert (strided.tensor.address - other.address, flat.tensor.address - other.address) == (4, 16)
    assert total.numpy().tolist() == [[32.0, 48.0], [32.0, 48.0]]


def test_a_multiview_of_multiviews_is_resolved_by_both_loops() -> None:
    outer, inner = Counter("outer"), Counter("inner")
    a, b, c = rooms(3, 1)
    nested = Multiview([Multiview([a, b], MultiviewKind.K0N, outer), c], MultiviewKind.K1N, inner)
    outer.active = inner.active = True
    seen = []
    for turn in range(2):
        outer.move(turn)
        for step in range(2):
            inner.move(step)
            seen.append(TapeAccess().read(nested, ()))
    assert [one is other for one, other in zip(seen, (a, c, b, c), strict=True)] == [True] * 4


def test_synchronize_brings_references_up_to_date() -> None:
    counter = Counter()
    a, b = rooms(2, 1)
    multiview = Multiview([a, b], MultiviewKind.K0N, counter)
    reference = synchronize_to_multiview(multiview, Reference(a.spec))
    with pytest.raises(UsageError, match="before its source was used"):
        _ = reference.tensor
    counter.active = True
    for turn, expected in enumerate((a, b, a)):
        counter.move(turn)
        assert multiview_synchronize(multiview) is expected
        assert reference.tensor is expected


def test_the_view_into_a_tensor_that_comes_again_is_the_same_one() -> None:
    a, b = rooms(2, 2, 2)
    part = Reference(spec([2]), 2, (1,))
    seen = []
    for place in (a, b, a, b):
        part.follow(place)
        seen.append(part.tensor)
    assert seen[0] is seen[2]
    assert seen[1] is seen[3]
    assert [one.address for one in seen[:2]] == [a.address + 8, b.address + 8]


def test_outside_its_loop_a_multiview_is_what_it_was_last() -> None:
    counter = Counter()
    a, b = rooms(2, 1)
    multiview = Multiview([a, b], MultiviewKind.K0N, counter)
    assert TapeAccess().read(multiview, ()) is a
    counter.active = True
    counter.move(1)
    TapeAccess().read(multiview, ())
    counter.move(2)
    counter.active = False
    assert TapeAccess().read(multiview, ()) is b


def test_a_phi_has_no_tensor_before_its_branch_ran() -> None:
    with pytest.raises(UsageError, match="before its case"):
        TapeAccess().read(Phi(room(1), room(1)), ())


def test_a_carry_begins_with_its_initial_tensor() -> None:
    initial, later = rooms(2, 1)
    carry = Carry(initial)
    assert TapeAccess().read(carry, ()) is initial
    carry.touch(later)
    assert TapeAccess().read(carry, ()) is later


def test_views_must_agree_and_be_enough() -> None:
    with pytest.raises(ShapeError, match="views of one spec"):
        Multiview([room(1), room(2)], MultiviewKind.K0N, Counter())
    with pytest.raises(ShapeError, match="views of one spec"):
        Phi(room(1), room(2))
    with pytest.raises(ArityError, match="at least 1 for K0N"):
        Multiview([], MultiviewKind.K0N, Counter())
    with pytest.raises(ArityError, match="at least 2 for K1N"):
        Multiview([room(1)], MultiviewKind.K1N, Counter())


def test_a_reference_follows_one_source_and_knows_its_strides() -> None:
    a = room(2, 2)
    multiview = Multiview([a], MultiviewKind.K0N, Counter())
    reference = synchronize_to_multiview(multiview, Reference(a.spec))
    with pytest.raises(UsageError, match="a second source"):
        synchronize_to_multiview(multiview, reference)
    with pytest.raises(ShapeError, match="need strides"):
        Reference(spec([4])).follow(a)
    late = Phi(a, a)
    late.touch(a)
    assert synchronize_to_multiview(late, Reference(a.spec)).tensor is a


def test_places_are_checked_by_the_graph() -> None:
    with pytest.raises(UsageError, match="tensors, multiviews or other places"):
        graph().multiview([1])  # type: ignore[list-item]  # the error is the point
    with pytest.raises(UsageError, match="tensors, multiviews or other places"):
        graph().add(PRODUCT, ["x", "y"], [room(1)])  # type: ignore[list-item]  # the error is the point
    assert isinstance(graph().count, Tensor)


def test_what_is_no_place_that_moves_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"synchronize_to_multiview: got source=True"):
        synchronize_to_multiview(True, Reference(spec((2,))))  # type: ignore[arg-type]
