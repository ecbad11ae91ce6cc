"""A valid graph is damaged once per rule, and each time that rule, by its number, finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.dtype import I32
from nnc.core.values.spec import spec
from nnc.errors import VerificationError
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import AliasOf, Dependency, ExecSymbol, SymbolicGraph, compile, faults, verify
from nnc.symbolic.control import WHILE, WhileAttrs
from nnc.symbolic.ir import Body, bodies_of
from nnc.symbolic.records import ExecKey, TensorKey
from nnc.symbolic.verification import RULES

X, W, PRODUCT, PART, Y, WHOLE, LEFT, RIGHT = (TensorKey(key) for key in range(8))
GEMM, EXP, FIRST, SECOND = (ExecKey(key) for key in range(4))
COPIED = Command(contiguous, NoAttrs())


def valid() -> SymbolicGraph:
    """Execs gemm → exp of a slice of it; two copies of that into the two halves of one tensor."""
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 3))), graph.input(spec((3, 2)))
    y = ops.exp((x @ w)[1:3])
    whole = graph.input(spec((8,)))
    for start in (0, 4):
        half = whole[start : start + 4]
        graph.apply(COPIED, [y], [graph.alias(half.key, spec((2, 2)), start, (2, 1))])
    return graph


def remove_read_tensor(graph: SymbolicGraph) -> None:
    graph.tensors.remove(X)


def remove_written_tensor(graph: SymbolicGraph) -> None:
    graph.tensors.remove(Y)


def name_unknown_tensor(graph: SymbolicGraph) -> None:
    graph.execs.replace_node(EXP, replace(graph.execs[EXP], inputs=(TensorKey(99),)))


def name_what_has_no_spec(graph: SymbolicGraph) -> None:
    ops.exp(graph.input())


def alias_with_a_fill(graph: SymbolicGraph) -> None:
    graph.tensors.replace(PART, replace(graph.tensors[PART], fill=0.0))


def given_order_in_a_circle(graph: SymbolicGraph) -> None:
    graph.execs.add_edge(EXP, GEMM, Dependency())


def alias_of_alias(graph: SymbolicGraph) -> None:
    graph.tensors.new(replace(graph.tensors[PART], alias=AliasOf(PART, 0, (2, 1))))


def alias_outside(graph: SymbolicGraph) -> None:
    graph.tensors.replace(PART, replace(graph.tensors[PART], alias=AliasOf(PRODUCT, 6, (2, 1))))


def alias_with_missing_strides(graph: SymbolicGraph) -> None:
    graph.tensors.new(replace(graph.tensors[PART], alias=AliasOf(PRODUCT, 0, (1,))))


def alias_of_another_type(graph: SymbolicGraph) -> None:
    graph.tensors.new(replace(graph.tensors[PART], spec=spec((2, 2), I32)))


def alias_of_nothing(graph: SymbolicGraph) -> None:
    graph.tensors.remove(graph.input(spec((4,))).key)
    graph.tensors.new(replace(graph.tensors[PART], alias=AliasOf(TensorKey(len(graph.tensors)), 0, (2, 1))))


def write_twice(graph: SymbolicGraph) -> None:
    graph.add_exec(ExecSymbol(COPIED, (Y,), graph.execs[SECOND].outputs))


def write_overlapping(graph: SymbolicGraph) -> None:
    place = graph.alias(WHOLE, spec((2, 2)), 3, (2, 1))
    graph.add_exec(ExecSymbol(COPIED, (Y,), (place.key,)))


def write_one_place_by_one_exec_twice(graph: SymbolicGraph) -> None:
    whole = graph.input(spec((4,)))
    graph.add_exec(ExecSymbol(COPIED, (Y,), (graph.alias(whole.key, spec((2, 2)), 0, (1, 1)).key,)))


def other_spec(graph: SymbolicGraph) -> None:
    graph.tensors.replace(Y, replace(graph.tensors[Y], spec=spec((4,))))


def other_type(graph: SymbolicGraph) -> None:
    graph.tensors.replace(Y, replace(graph.tensors[Y], spec=spec((2, 2), "f64")))


def inputs_that_do_not_fit(graph: SymbolicGraph) -> None:
    graph.tensors.replace(W, replace(graph.tensors[W], spec=spec((2, 2))))


def missing_edge(graph: SymbolicGraph) -> None:
    graph.execs.remove_edge(graph.execs.in_edges(EXP)[0])


def needless_edge(graph: SymbolicGraph) -> None:
    graph.execs.add_edge(FIRST, SECOND, Dependency(WHOLE))


def cycle(graph: SymbolicGraph) -> None:
    graph.execs.add_edge(EXP, GEMM, Dependency(PRODUCT))


def add_loop(graph: SymbolicGraph, damage: Callable[[SymbolicGraph, Body], Body]) -> None:
    """A loop of one exec, whose body is damaged before anybody has looked at it."""
    inner = SymbolicGraph()
    count, x = inner.input(spec((), "i64")), inner.input(spec((2,), "f32"))
    body = damage(inner, Body(inner, (x.key,), (ops.exp(x).key,)))
    graph.apply(Command(WHILE, WhileAttrs(body, 1, count.key, CountBelow(2))), [graph.input(spec((2,), "f32"))])


def invalid_body(graph: SymbolicGraph) -> None:
    def damage(inner: SymbolicGraph, body: Body) -> Body:
        (key,) = inner.execs
        inner.execs.add_edge(key, key, Dependency(body.results[0]))
        return body

    add_loop(graph, damage)


def written_parameter(graph: SymbolicGraph) -> None:
    add_loop(graph, lambda inner, body: Body(inner, body.results, body.results))


def result_of_nothing(graph: SymbolicGraph) -> None:
    add_loop(graph, lambda inner, body: Body(inner, body.parameters, (inner.input(spec((2,), "f32")).key,)))


def unknown_result(graph: SymbolicGraph) -> None:
    def damage(inner: SymbolicGraph, body: Body) -> Body:
        inner.remove_exec(next(iter(inner.execs)))
        return body

    add_loop(graph, damage)
    (body,) = (body for _, record in graph.execs.items() for _, body in bodies_of(record.command))
    body.graph.remove_tensor(body.results[0])


DAMAGES: tuple[tuple[str, Callable[[SymbolicGraph], None]], ...] = (
    ("S1", remove_read_tensor),
    ("S1", remove_written_tensor),
    ("S1", name_unknown_tensor),
    ("S1", name_what_has_no_spec),
    ("S2", alias_with_a_fill),
    ("S2", alias_of_alias),
    ("S2", alias_outside),
    ("S2", alias_with_missing_strides),
    ("S2", alias_of_another_type),
    ("S2", alias_of_nothing),
    ("S3", write_twice),
    ("S3", write_overlapping),
    ("S3", write_one_place_by_one_exec_twice),
    ("S4", other_spec),
    ("S4", other_type),
    ("S4", inputs_that_do_not_fit),
    ("S5", missing_edge),
    ("S5", needless_edge),
    ("S6", cycle),
    ("S6", given_order_in_a_circle),
    ("S7", invalid_body),
    ("S7", written_parameter),
    ("S7", result_of_nothing),
    ("S7", unknown_result),
)


def test_a_valid_graph_has_no_faults() -> None:
    graph = valid()
    assert [str(record.command) for _, record in graph.execs.items()] == ["gemm", "exp", "copy", "copy"]
    assert faults(graph) == ()
    verify(graph)
    assert faults(SymbolicGraph()) == ()


@pytest.mark.parametrize(("rule", "damage"), DAMAGES, ids=[damage.__name__ for _, damage in DAMAGES])
def test_each_damage_is_found_by_its_rule(rule: str, damage: Callable[[SymbolicGraph], None]) -> None:
    graph = valid()
    damage(graph)
    assert rule in {fault.partition(":")[0] for fault in faults(graph)}


def test_every_rule_has_a_damage() -> None:
    assert {rule for rule, _ in DAMAGES} == {name for name, _ in RULES}


def test_the_error_names_the_rule_and_the_pass() -> None:
    graph = valid()
    missing_edge(graph)
    with pytest.raises(VerificationError, match=r"symbolic graph after fusion: S5: exec 1 follows \[\], its reads"):
        verify(graph, after="fusion")


@pytest.mark.usefixtures("debug")
def test_compile_verifies_in_debug_mode() -> None:
    graph = valid()
    needless_edge(graph)
    with pytest.raises(VerificationError, match="compile's input: S5"):
        compile(graph, [graph.symbol(WHOLE)])
