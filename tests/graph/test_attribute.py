"""Open attributes: rows R6, R8, R10 of NNVM; the key is the column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nnc.errors import RegistryError
from nnc.graph import Group, NoAttributes, Op, OpAttr, OpRule, Registry

Pairs = Callable[[], list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class PoolAttrs:
    """The window."""

    size: int


def make(*names: str) -> tuple[Registry, list[Op[NoAttributes]]]:
    registry = Registry("test")
    return registry, [Op(name, NoAttributes, ("x",), registry=registry) for name in names]


def test_R10_values_are_read_by_key_and_operator() -> None:
    registry, (relu, tanh) = make("relu", "tanh")
    inplace = OpAttr[bool]("inplace")
    inplace.set(relu, True)
    assert (inplace[relu], inplace.get(relu), inplace.get(tanh), inplace.get(tanh, "none")) == (
        True,
        True,
        None,
        "none",
    )
    assert (relu in inplace, tanh in inplace) == (True, False)
    assert inplace.ops() == inplace.ops(registry) == (relu,)
    assert inplace.ops(Registry("empty")) == ()


def test_register_is_a_decorator_that_gives_the_rule_back() -> None:
    _, (relu,) = make("relu")
    pairs = OpAttr[Pairs]("inplace")

    @pairs.register(relu)
    def relu_pairs() -> list[tuple[int, int]]:
        return [(0, 0)]

    assert pairs[relu] is relu_pairs
    assert pairs[relu]() == [(0, 0)]


def test_R10_a_missing_value_names_operator_attribute_and_near_names() -> None:
    _, (relu, relu6, tanh) = make("relu", "relu6", "tanh")
    inplace = OpAttr[bool]("inplace")
    inplace.set(relu, True)
    with pytest.raises(
        RegistryError, match=r"inplace\[relu6\]: got an operator without 'inplace'.*did you mean 'relu'?"
    ):
        inplace[relu6]
    with pytest.raises(RegistryError, match=r"Fix: register 'inplace' for tanh"):
        inplace[tanh]


def test_R6_the_higher_level_wins_in_any_order() -> None:
    _, (up, down) = make("up", "down")
    cost = OpAttr[str]("cost")
    for level in (5, 10, 15):
        cost.set(up, f"level {level}", level)
    for level in (15, 10, 5):
        cost.set(down, f"level {level}", level)
    assert (cost[up], cost[down], cost.level(up)) == ("level 15", "level 15", 15)
    assert cost.level(Op("new", NoAttributes, ("x",), registry=up.registry)) is None


@pytest.mark.parametrize("level", [10, 5])
def test_R6_the_same_level_twice_is_an_error(level: int) -> None:
    _, (relu,) = make("relu")
    cost = OpAttr[str]("cost")
    cost.set(relu, "high")
    cost.set(relu, "low", 5)
    with pytest.raises(RegistryError, match=rf"cost\[relu\]: got a second value of level {level}"):
        cost.set(relu, "again", level)
    assert cost[relu] == "high"


def test_R8_a_group_gives_its_values_in_either_order() -> None:
    registry, (early, late) = make("early", "late")
    group = Group("pointwise", registry)
    before, after = OpAttr[str]("before"), OpAttr[str]("after")
    before.set(group, "b")
    group.include(early)
    after.set(group, "a")
    group.include(late, early)
    born = Op("born", NoAttributes, ("x",), registry=registry, groups=[group])
    for op in (early, late, born):
        assert (before[op], after[op], before.level(op)) == ("b", "a", 1)
    assert group.members == (early, late, born)


def test_R8_an_operators_own_value_beats_the_groups() -> None:
    registry, (first, second) = make("first", "second")
    group = Group("pointwise", registry)
    cost = OpAttr[str]("cost")
    cost.set(first, "own")
    group.include(first, second)
    cost.register(group)("group")
    cost.set(second, "own")
    assert (cost[first], cost[second]) == ("own", "own")


def test_R8_contradicting_groups_are_refused_and_nothing_changes() -> None:
    registry, (free, taken) = make("free", "taken")
    one, other = Group("one", registry), Group("other", registry)
    cost = OpAttr[str]("cost")
    cost.set(one, "1")
    cost.set(other, "2")
    one.include(taken)
    with pytest.raises(RegistryError, match=r"cost\[taken\]: got a second value of level 1"):
        other.include(free, taken)
    assert (other.members, free in cost, cost[taken]) == ((), False, "1")
    third = Group("third", registry)
    third.include(free, taken)
    with pytest.raises(RegistryError):
        cost.set(third, "3")
    assert free not in cost
    with pytest.raises(RegistryError, match=r"group other: got a second value of OpAttr\(cost\) and level 1"):
        cost.set(other, "2 again")
    with pytest.raises(RegistryError, match="group 'one': got a name in use"):
        Group("one", registry)
    with pytest.raises(RegistryError, match="got an operator of Registry"):
        one.include(*make("stranger")[1])


def test_M5_a_rule_reads_the_attributes_of_its_operator() -> None:
    registry, (relu,) = make("relu")
    pool = Op("pool", PoolAttrs, ("x",), registry=registry)
    infer = OpRule[[int], int]("infer")

    @infer.register(pool)
    def infer_pool(attributes: PoolAttrs, length: int) -> int:
        return length // attributes.size

    infer.set(relu, lambda _, length: length)
    assert infer[pool](PoolAttrs(2), 8) == 4
    assert infer[relu](NoAttributes(), 8) == 8
    found = infer.get(pool)
    assert found is infer_pool
    assert infer.get(Op("new", NoAttributes, ("x",), registry=registry)) is None


def test_a_group_may_have_a_rule_for_any_attributes() -> None:
    registry, (relu, tanh) = make("relu", "tanh")
    group = Group("pointwise", registry)
    group.include(relu)
    infer = OpRule[[int], int]("infer")
    infer.set_group(group, lambda _, length: length)
    group.include(tanh)
    infer.set(tanh, lambda _, length: -length)
    assert (infer[relu](NoAttributes(), 3), infer[tanh](NoAttributes(), 3)) == (3, -3)


def test_R10_an_attribute_of_another_package_needs_no_change_here() -> None:
    registry, (relu,) = make("relu")
    fusion_class = OpAttr[int]("a pass's own attribute")
    fusion_class.set(relu, 0)
    assert registry.attributes_of(relu) == (fusion_class,)
