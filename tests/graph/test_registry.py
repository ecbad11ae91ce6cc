"""The open operator registry: rows R1-R5, R7-R9, R11, R12, R14 of NNVM and the defects that we cannot have."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import pytest

from nnc.errors import ArityError, AttributeValueError, RegistryError
from nnc.graph import (
    OP_LEVEL,
    VARIADIC,
    Group,
    NoAttributes,
    Op,
    OpAttr,
    Registry,
    decode_call,
    default_registry,
    encode_call,
    record_codec,
)


@dataclass(frozen=True, slots=True)
class SplitAttrs:
    """How many parts."""

    parts: int
    axis: int = -1


@dataclass
class Thawed:
    """Attributes that could change."""

    axis: int


def unary(name: str, registry: Registry, level: int = OP_LEVEL) -> Op[NoAttributes]:
    return Op(name, NoAttributes, ("x",), registry=registry, level=level)


def split_outputs(attributes: SplitAttrs) -> tuple[str, ...]:
    return tuple(f"part{number}" for number in range(attributes.parts))


def test_R1_define_is_register_or_get() -> None:
    registry = Registry("test")
    first = registry.define("split", SplitAttrs, inputs=("x",), outputs=split_outputs, doc="Cut.")
    again = registry.define("split", SplitAttrs, inputs=("x",), outputs=split_outputs, aliases=["cut"])
    assert first is again is registry.op("cut")
    assert len(registry) == 1


def test_R1_a_contradicting_definition_is_refused() -> None:
    registry = Registry("test")
    registry.define("split", SplitAttrs, inputs=("x",), outputs=split_outputs)
    contradictions: list[Callable[[], object]] = [
        lambda: registry.define("split", NoAttributes, inputs=("x",)),
        lambda: registry.define("split", SplitAttrs, inputs=("x", "y"), outputs=split_outputs),
        lambda: Op("split", SplitAttrs, ("x",), split_outputs, registry=registry),
        lambda: unary("other", registry).registry.alias(registry.op("other"), "split"),
    ]
    for contradict in contradictions:
        with pytest.raises(RegistryError, match=r"operator '?split'?: got a .* Fix: choose another name"):
            contradict()
    assert registry.op("split").attributes is SplitAttrs


def test_R2_R5_attributes_are_a_frozen_dataclass_with_documentation() -> None:
    registry = Registry("test")
    op = Op("split", SplitAttrs, ("x",), split_outputs, registry=registry, doc="Cut along an axis.")
    assert (op.doc, op.attributes(2)) == ("Cut along an axis.", SplitAttrs(2, -1))
    for bad in (Thawed, int):
        with pytest.raises(RegistryError, match="operator bad: got the attributes type .*; need a frozen dataclass"):
            Op("bad", bad, ("x",), registry=registry)
    assert "bad" not in registry


def test_R3_arity_is_names_or_a_function_of_the_attributes_or_variadic() -> None:
    registry = Registry("test")
    split = Op("split", SplitAttrs, ("x",), split_outputs, registry=registry)
    concat = Op("concat", NoAttributes, VARIADIC, registry=registry)
    assert split.input_names(SplitAttrs(3), 1) == ("x",)
    assert split.output_names(SplitAttrs(3), 3) == ("part0", "part1", "part2")
    assert concat.input_names(NoAttributes(), 2) == ("input0", "input1")
    with pytest.raises(ArityError, match=r"split: got 2 outputs; need 3 \(part0, part1, part2\)"):
        split.output_names(SplitAttrs(3), 2)
    with pytest.raises(ArityError, match=r"split: got 0 inputs; need 1 \(x\)"):
        split.input_names(SplitAttrs(3), 0)
    for ask in (split.check_attributes, lambda attributes: split.output_names(attributes, 1)):
        with pytest.raises(AttributeValueError, match="split: got attributes of type NoAttributes; need SplitAttrs"):
            ask(NoAttributes())
    split.check_attributes(SplitAttrs(1))


def test_R4_the_support_level_is_kept() -> None:
    registry = Registry("test")
    assert (unary("a", registry).level, unary("b", registry, level=1).level) == (10, 1)


def test_R7_an_alias_is_the_same_operator() -> None:
    registry = Registry("test")
    op = Op("multiply", NoAttributes, ("a", "b"), registry=registry, aliases=("mul",))
    registry.alias(op, "times")
    registry.alias(op, "times")
    assert registry.op("mul") is registry.op("times") is op
    assert (op.aliases, registry.ops()) == (("mul", "times"), (op,))
    with pytest.raises(RegistryError, match="got an operator of Registry"):
        registry.alias(unary("other", Registry("elsewhere")), "stranger")


def test_R9_a_missing_operator_suggests_near_names() -> None:
    registry = Registry("test")
    for name in ("softmax", "softplus", "relu"):
        unary(name, registry)
    with pytest.raises(
        RegistryError, match=r"operator 'sofmax': .*need one of its 3 names. Fix: did you mean 'softmax'"
    ):
        registry.op("sofmax")
    with pytest.raises(RegistryError, match="need one of its 3 names$"):
        registry.op("zzz")


def test_R11_operators_are_numbered_in_order() -> None:
    registry = Registry("test")
    assert [unary(name, registry).index for name in "abc"] == [0, 1, 2]


def test_R12_D7_registries_do_not_see_each_other() -> None:
    one, other = Registry("one"), Registry("other")
    attribute, twin = OpAttr[int]("cost"), OpAttr[str]("cost")
    mine, yours = unary("relu", one), unary("relu", other)
    attribute.set(mine, 1)
    twin.set(yours, "free")
    assert (attribute[mine], twin[yours], yours in attribute, mine in twin) == (1, "free", False, False)
    assert one.op("relu") is not other.op("relu")
    with pytest.raises(RegistryError):
        one.attributes_of(yours)


def test_R12_a_registry_dies_with_its_columns() -> None:
    registry = Registry("short")
    attribute = OpAttr[int]("cost")
    attribute.set(unary("relu", registry), 1)
    death = weakref.ref(registry)
    del registry
    gc.collect()
    assert death() is None
    assert attribute.ops() == ()


def test_R14_everything_can_be_listed() -> None:
    registry = Registry("test")
    cost, pure = OpAttr[int]("cost"), OpAttr[bool]("pure")
    relu = unary("relu", registry)
    add = Op("add", NoAttributes, ("a", "b"), registry=registry, aliases=("plus",))
    group = Group("pointwise", registry)
    cost.set(relu, 1)
    pure.set(relu, True)
    pure.set(add, True)
    assert registry.ops() == (relu, add)
    assert registry.names() == ("add", "plus", "relu")
    assert registry.attributes_of(relu) == registry.keys() == (cost, pure)
    assert registry.attributes_of(add) == (pure,)
    assert registry.groups() == (group,)
    assert ("plus" in registry, "minus" in registry) == (True, False)


def test_M12_everything_has_a_readable_repr() -> None:
    registry = Registry("test")
    add = Op("add", NoAttributes, ("a", "b"), registry=registry)
    split = Op("split", SplitAttrs, VARIADIC, split_outputs, registry=registry)
    assert repr(add) == "Op(add: a, b -> y; NoAttributes)"
    assert repr(split) == "Op(split: ... -> by attributes; SplitAttrs)"
    assert repr(registry) == "Registry('test', 2 operators)"
    assert repr(OpAttr[int]("cost")) == "OpAttr(cost)"
    assert repr(Group("pointwise", registry)) == "Group(pointwise: 0 operators)"


def test_operators_are_equal_only_to_themselves() -> None:
    one, other = unary("relu", Registry("one")), unary("relu", Registry("other"))
    assert one != other
    assert len({one, other, one}) == 2


def test_the_default_registry_is_only_a_default() -> None:
    op = Op("test-registry-default", NoAttributes, ("x",))
    assert op.registry is default_registry
    assert default_registry.op("test-registry-default") is op


def test_D6_many_threads_register_at_once() -> None:
    registry = Registry("busy")
    attribute = OpAttr[int]("cost")
    group = Group("all", registry)
    start = threading.Barrier(8)
    defined: list[Op[NoAttributes]] = []
    refused: list[RegistryError] = []

    def work(number: int) -> None:
        start.wait()
        for place in range(50):
            op = registry.define(f"shared{place}", NoAttributes, inputs=("x",))
            defined.append(op)
            group.include(op)
            try:
                attribute.set(op, number)
            except RegistryError as error:
                refused.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(defined)) == len(registry) == len(group.members) == 50
    assert [op.index for op in registry.ops()] == list(range(50))
    assert len(refused) == 50 * 7


def test_D10_a_family_of_rules_can_be_proved_closed() -> None:
    registry = Registry("test")
    gradient, decompose, reason = OpAttr[str]("gradient"), OpAttr[str]("decompose"), OpAttr[str]("no gradient")
    relu, relu_backward, floor = (unary(name, registry) for name in ("relu", "relu_backward", "floor"))
    gradient.set(relu, "relu_backward")
    reason.set(floor, "flat")
    assert registry.lacking(gradient, decompose, reason) == (relu_backward,)
    decompose.set(relu_backward, "where")
    assert registry.lacking(gradient, decompose, reason) == ()


def test_M5_attributes_of_every_kind_of_operator_round_trip() -> None:
    registry = Registry("test")
    split = Op("split", SplitAttrs, ("x",), split_outputs, registry=registry)
    relu = unary("relu", registry)
    for op, attributes in ((split, SplitAttrs(4, 1)), (relu, NoAttributes())):
        assert decode_call(registry, encode_call(op, attributes)) == (op, attributes)
    codec = record_codec(SplitAttrs)
    assert codec.decode(codec.encode(SplitAttrs(2)), "attributes") == SplitAttrs(2)


DEFINING = compile(
    "op = Op('doubled', NoAttributes, inputs=('x',), registry=registry, aliases=('twice',))", "<text>", "exec"
)


def test_a_module_whose_import_ended_in_the_middle_defines_its_operators_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory ended within `nnc.ops`, the next import of it found its own operators in the way."""
    registry = Registry("interrupted")
    first, second, third = (
        {"__name__": "nnc.half", "Op": Op, "NoAttributes": NoAttributes, "registry": registry} for _ in "123"
    )
    exec(DEFINING, first)
    exec(DEFINING, second)
    assert registry.op("twice") is registry.op("doubled") is second["op"]
    assert (second["op"].index, len(registry)) == (first["op"].index, 1)
    module = ModuleType("nnc.half")
    vars(module).update(second)
    monkeypatch.setitem(sys.modules, "nnc.half", module)
    exec(DEFINING, vars(module))
    with pytest.raises(RegistryError, match="already holds"):
        exec(DEFINING, third)
    own = third | {"__name__": "mine"}
    with pytest.raises(RegistryError, match="already holds"):
        exec(DEFINING, own)
