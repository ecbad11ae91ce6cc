"""Row R13 of NNVM: a front end from the registry alone."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pytest

from nnc.errors import ArityError, AttributeValueError
from nnc.graph import VARIADIC, NoAttributes, Op, Registry, operator_function, stub


@dataclass(frozen=True, slots=True)
class PoolAttrs:
    size: int
    mode: Literal["max", "mean"] = "max"
    pads: tuple[int, ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class SplitAttrs:
    parts: int


REGISTRY = Registry("test")
ADD = Op("add", NoAttributes, ("a", "b"), registry=REGISTRY, doc="y = a + b", aliases=("plus",))
CONCAT = Op("concat", NoAttributes, VARIADIC, registry=REGISTRY)
POOL = Op("pool.forward", PoolAttrs, ("x",), registry=REGISTRY)
SPLIT = Op("split", SplitAttrs, ("x",), lambda attributes: ("y",) * attributes.parts, registry=REGISTRY)


def apply(op: Op[object], inputs: tuple[str, ...], attributes: object) -> str:
    return f"{op.name}({', '.join(inputs)}; {attributes})"


def test_R13_inputs_go_by_position_or_name_and_attributes_by_name() -> None:
    add, pool, concat = (operator_function(op, apply) for op in (ADD, POOL, CONCAT))
    assert add("p", "q") == add("p", b="q") == add(b="q", a="p") == "add(p, q; NoAttributes())"
    assert pool("p", size=2) == "pool.forward(p; PoolAttrs(size=2, mode='max', pads=()))"
    assert concat("p", "q", "r") == "concat(p, q, r; NoAttributes())"


def test_R2_R13_the_function_documents_itself() -> None:
    pool = operator_function(POOL, apply)
    assert (pool.__name__, operator_function(ADD, apply).__doc__) == ("pool_forward", "y = a + b")
    assert str(inspect.signature(pool)).startswith("(x, *, size: 'int', mode:")
    assert inspect.getdoc(pool) == (
        "pool.forward.\n\nAttributes:\n    size: int\n    mode: Literal['max', 'mean']\n    pads: tuple[int, ...]"
    )


def test_wrong_calls_are_typed_errors() -> None:
    add, pool = operator_function(ADD, apply), operator_function(POOL, apply)
    calls: list[Callable[[], str]] = [
        lambda: add("p"),
        lambda: add("p", "q", "r"),
        lambda: add("p", "q", a="p"),
        lambda: pool("p"),
    ]
    for call in calls:
        with pytest.raises(ArityError, match="^(add|pool.forward): got"):
            call()
    with pytest.raises(
        AttributeValueError, match="got the attribute 'sizes'; need one of size, mode, pads. Fix: did you"
    ):
        pool("p", sizes=2)
    with pytest.raises(AttributeValueError, match="add: got the attribute 'c'; need no attribute"):
        add("p", "q", c=1)


def test_R13_the_stub_is_python() -> None:
    text = stub(REGISTRY, "Tensor")
    ast.parse(text)
    assert text.splitlines() == [
        "def add(a: Tensor, b: Tensor) -> Tensor: ...",
        "def concat(*inputs: Tensor) -> Tensor: ...",
        "def pool_forward(x: Tensor, *, size: int, mode: Literal['max', 'mean'] = ..., pads: tuple[int, ...] = ...)"
        " -> Tensor: ...",
        "def split(x: Tensor, *, parts: int) -> tuple[Tensor, ...]: ...",
    ]
