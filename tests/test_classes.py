"""The quick `dataclass`: what it makes is what the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from dataclasses import FrozenInstanceError, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from nnc import classes
from nnc.arguments import Count, checked
from nnc.errors import ArgumentError

T = TypeVar("T")


@checked
@classes.dataclass(frozen=True, slots=True)
class _Units:
    count: Count
    name: str = ""


def both(**options: bool) -> list[Any]:
    """The same class as the standard library makes it, and as ours does."""
    made = []
    for decorate in (dataclasses.dataclass, classes.dataclass):

        class Row:
            kind: ClassVar[str] = "row"
            name: str
            size: int = 3
            tags: list[int] = field(default_factory=list)
            note: str = field(default="", compare=False, repr=False)
            area: int = field(init=False, default=7)

            def __post_init__(self) -> None:
                object.__setattr__(self, "area", self.size * self.size)

        made.append(decorate(**options)(Row))
    return made


OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq, "repr": printed}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
    for printed in (False, True)
]


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    x: int
    y: float = 0.5


@classes.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float = 0.5


@classes.dataclass(frozen=True, slots=True, weakref_slot=True)
class Box(Generic[T]):
    content: T

    def __hash__(self) -> int:
        return 11


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_has_the_attributes_and_the_signature_of_the_standard_one(options: dict[str, bool]) -> None:
    standard, quick = both(**options)
    hidden = {"__signature__", "__doc__", "__dataclass_params__", "__getstate__", "__setstate__"}
    assert set(dir(standard)) == set(dir(quick)) - {"__signature__"}
    assert vars(standard).keys() - hidden == vars(quick).keys() - hidden
    assert inspect.signature(standard) == inspect.signature(quick)
    assert repr(standard.__dataclass_params__) == repr(quick.__dataclass_params__)
    assert [one.name for one in dataclasses.fields(standard)] == [one.name for one in dataclasses.fields(quick)]
    assert standard.__match_args__ == quick.__match_args__
    assert (standard.__hash__ is None) == (quick.__hash__ is None)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_object_behaves_as_the_standard_one(options: dict[str, bool]) -> None:
    standard, quick = both(**options)
    for row in (standard, quick):
        one, two, other = row("a", 2, [5], "x"), row("a", 2, [5], "y"), row("b")
        assert (one == two) is options["eq"]
        assert one != other
        assert one != ("a", 2, [5])
        assert (one.area, other.area, other.tags) == (4, 9, [])
        assert other.tags is not row("b").tags
        assert ("name='a', size=2, tags=[5], area=4)" in repr(one)) is options["repr"]
        assert replace(one, size=4).area == 16
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
            row()
    if options["repr"]:
        assert repr(standard("a")) == repr(quick("a"))


@pytest.mark.parametrize("slots", [False, True])
def test_a_frozen_object_refuses_what_the_standard_one_refuses(slots: bool) -> None:
    for row in both(frozen=True, slots=slots):
        one = row("a")
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
            one.size = 4
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'size'"):
            del one.size


def test_hashes_are_those_of_the_standard_library() -> None:
    assert hash(Point(3)) == hash(StandardPoint(3)) == hash((3, 0.5))
    assert hash(Box([])) == 11


def test_objects_are_copied_and_pickled() -> None:
    one = Point(3, 4.0)
    assert [copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))] == [one] * 3


def test_an_object_within_itself_is_printed() -> None:
    box = Box([])
    assert weakref.ref(box)() is box
    box.content.append(box)
    assert repr(box) == "Box(content=[...])"


def test_a_class_on_another_dataclass_is_the_standard_librarys() -> None:
    @classes.dataclass(frozen=True, slots=True)
    class Solid(Point):
        z: int = 0

    assert Solid(1, 2.0, 3) == Solid(1, 2.0, 3) != Solid(1, 2.0, 4)
    with pytest.raises(FrozenInstanceError):
        Solid(1).z = 4  # type: ignore[misc]


def test_a_mutable_default_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @classes.dataclass(slots=True)
        class Shared:
            names: list[str] = []  # noqa: RUF012


def test_arguments_of_a_checked_class_are_checked_at_the_first_call() -> None:
    for _ in range(2):
        with pytest.raises(ArgumentError, match="count=0"):
            _Units(0)
        with pytest.raises(ArgumentError, match="name=1"):
            _Units(count=2, name=1)  # type: ignore[arg-type]  # wrong on purpose
    assert _Units(2) == _Units(count=2)


def test_a_base_sees_the_constructor_of_a_class_with_slots() -> None:
    seen: list[bool] = []

    class Base:
        __slots__ = ()

        def __init_subclass__(cls) -> None:
            seen.append("__init__" in vars(cls))

    @classes.dataclass(frozen=True, slots=True)
    class Derived(Base):
        count: int

    assert (seen[0], seen[-1], Derived(3).count) == (False, True, 3)
