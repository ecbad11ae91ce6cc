from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.dtype import I32
from nnc.core.values.spec import spec
from nnc.errors import (
    ArgumentError,
    ArityError,
    CycleError,
    GraphError,
    ShapeError,
    SymbolError,
    UnknownKeyError,
    UsageError,
)
from nnc.graph import Arena, DictStorage
from nnc.ops.elementwise.pointwise import add, exp
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import ExecSymbol, SymbolicGraph, backward, compile, faults, verify
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dump, parse

COPIED = Command(contiguous, NoAttrs())
EXPONENTIAL = Command(exp, NoAttrs())
ADDED = Command(add, NoAttrs())


def line_of(text: str) -> str:
    """`test_ir.py:12` for the only line of this file that holds `text` as a comment."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def without_origins(text: str) -> str:
    return re.sub(r"  # \S+$", "", text, flags=re.MULTILINE)


@pytest.fixture
def graph() -> SymbolicGraph:
    return SymbolicGraph("g")


# ---- building


def test_operators_append_one_exec_each_and_numbers_become_attributes(graph: SymbolicGraph) -> None:
    x, y = graph.input(spec((2, 3)), "x"), graph.input(spec((2, 3)), "y")
    ((x + y) * 2.0 - 1.0) / (1.0 + x**2)
    names = [str(record.command) for _, record in graph.execs.items()]
    assert names == [
        "add",
        "affine(scale=2.0)",
        "affine(shift=-1.0)",
        "square",
        "affine(shift=1.0)",
        "divide",
    ]


def test_specs_are_inferred(graph: SymbolicGraph) -> None:
    a, b = graph.input(spec((5, 4, 3))), graph.input(spec((3, 2)))
    product = a @ b
    assert str(product.spec) == "f32[5, 4, 2]"
    assert str(ops.argmax(product, -1).spec) == "i64[5, 4]"
    assert product[0, 1:3].shape == (2, 2)
    assert product[-1].offset == 4 * 8


def test_an_aliased_alias_names_the_root(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4, 6)))
    part = x[1:3][:, 2:4][0]
    assert graph.root(part.key) == x.key
    assert (part.shape, part.offset, part.strides) == ((2,), 8, (1,))
    assert graph.tensors[part.key].alias is not None
    assert len(graph.execs) == 0


def test_a_reshape_of_a_contiguous_symbol_is_an_alias_and_of_another_one_a_copy(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4, 6)))
    ops.reshape(x[1:3], (3, -1))
    assert len(graph.execs) == 0
    ops.reshape(x[:, 1:3], (8,))
    assert [record.command.op for _, record in graph.execs.items()] == [contiguous]


def test_edges_follow_use(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.exp(x)
    y + y * x
    assert graph.execs.predecessors(graph.execs.nodes()[2]) == (0, 1)
    assert graph.writers(y.key) == (0,)
    assert graph.readers(y.key) == (1, 2)
    assert graph.inputs_of(graph.execs) == (x.key,)


def test_names_are_labels(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)), "x")
    y = ops.exp(x).named("y")
    assert y.name == "y"
    assert repr(y) == "Symbol(%1 y: f32[3])"
    assert ops.log(x).named("y") != y


def test_symbols_are_equal_by_graph_and_key(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    assert x == graph.symbol(x.key)
    assert hash(x) == hash(graph.symbol(x.key))
    assert x != SymbolicGraph().input(spec((3,)))
    assert x != x.key


def test_a_symbol_needs_a_live_key(graph: SymbolicGraph) -> None:
    with pytest.raises(UnknownKeyError):
        graph.symbol(graph.input(spec(())).key + 1)


# ---- errors


def test_an_inference_error_names_the_line_of_the_user(graph: SymbolicGraph) -> None:
    a, b = graph.input(spec((4, 3))), graph.input(spec((5, 3)))
    with pytest.raises(ShapeError) as caught:
        a @ b  # mismatched product
    assert caught.value.origin == line_of("mismatched product")
    assert str(caught.value).startswith("gemm: got a=f32[4, 3], b=f32[5, 3]; need a's k (3) == b's k (5). Fix: set")
    assert len(graph.execs) == 0


def test_an_exec_and_a_symbol_remember_the_line_of_the_user(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))  # birth of x
    y = ops.gelu(x)  # birth of y
    assert graph.tensors[x.key].origin == line_of("birth of x")
    assert {record.origin for _, record in graph.execs.items()} == {line_of("birth of y")}
    assert graph.tensors[y.key].origin == line_of("birth of y")


def test_a_symbol_of_another_graph_is_refused(graph: SymbolicGraph) -> None:
    x, other = graph.input(spec((3,)), "mine"), SymbolicGraph().input(spec((3,)), "theirs")
    with pytest.raises(SymbolError, match="of another graph") as caught:
        x + other  # foreign operand
    assert caught.value.origin == line_of("foreign operand")
    with pytest.raises(SymbolError):
        graph.rename(other, "name")


def test_a_wrong_number_of_inputs_is_refused(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    with pytest.raises(ArityError, match="add"):
        graph.apply(ADDED, [x])
    with pytest.raises(ArityError, match="without b"):
        graph.apply(ADDED, [x, None])


@pytest.mark.parametrize(("shape", "offset", "strides"), [((3,), 10, (1,)), ((3,), -1, (1,)), ((2, 2), 0, (11, 1))])
def test_an_alias_outside_its_root_is_refused(graph: SymbolicGraph, shape, offset: int, strides) -> None:
    x = graph.input(spec((12,)))
    with pytest.raises(ShapeError, match="inside the root"):
        graph.alias(x.key, spec(shape), offset, strides)


def test_an_alias_of_another_element_type_is_refused(graph: SymbolicGraph) -> None:
    x = graph.input(spec((12,)))
    with pytest.raises(ShapeError, match="of its type"):
        graph.alias(x.key, spec((12,), I32), 0, (1,))


# ---- written once


def test_a_second_writer_is_refused_with_its_line(graph: SymbolicGraph) -> None:
    x, y = graph.input(spec((3,))), graph.input(spec((3,)))
    graph.apply(EXPONENTIAL, [x], [y])
    with pytest.raises(SymbolError, match="already written") as caught:
        graph.apply(COPIED, [x], [y])  # second writer
    assert caught.value.origin == line_of("second writer")
    assert len(graph.execs) == 1


def test_disjoint_parts_have_a_writer_each_and_a_common_place_has_one(graph: SymbolicGraph) -> None:
    x, whole = graph.input(spec((4,))), graph.input(spec((2, 4)))
    graph.apply(EXPONENTIAL, [x], [whole[0]])
    graph.apply(COPIED, [x], [whole[1]])
    assert len(graph.writers(whole.key)) == 2
    with pytest.raises(SymbolError, match="already written"):
        graph.apply(COPIED, [x[:2]], [whole[1, 2:4]])
    with pytest.raises(SymbolError, match="already written"):
        graph.apply(COPIED, [ops.exp(whole)], [whole])
    verify(graph)


def test_columns_and_rows_are_told_apart_by_their_elements(graph: SymbolicGraph) -> None:
    column, row, whole = graph.input(spec((3, 1))), graph.input(spec((4,))), graph.input(spec((3, 4)))
    for index in (0, 2):
        graph.apply(COPIED, [column], [whole[:, index : index + 1]])
    with pytest.raises(SymbolError):
        graph.apply(COPIED, [row], [whole[1]])
    graph.apply(COPIED, [column], [whole[:, 1:2]])
    verify(graph)


def test_a_place_that_rows_run_over_into_is_written_once(graph: SymbolicGraph) -> None:
    flat = graph.input(spec((12,)))
    graph.apply(COPIED, [graph.input(spec((2, 4)))], [ops.reshape(flat[2:10], (2, 4))])
    with pytest.raises(SymbolError, match="already written"):
        graph.apply(COPIED, [graph.input(spec((2, 1)))], [ops.reshape(flat[4:12], (2, 4))[:, 0:1]])


def test_writing_what_was_read_is_refused(graph: SymbolicGraph) -> None:
    x, y = graph.input(spec((4,))), graph.input(spec((4,)))
    ops.exp(y[:2])
    with pytest.raises(SymbolError, match="already read"):
        graph.apply(COPIED, [x], [y])
    graph.apply(COPIED, [x[:2]], [y[2:4]])
    with pytest.raises(SymbolError, match="already read"):
        graph.apply(EXPONENTIAL, [x], [x])
    verify(graph)


def test_an_alias_that_names_a_place_twice_is_read_but_not_written(graph: SymbolicGraph) -> None:
    x, y = graph.input(spec((2, 3))), graph.input(spec((3,)))
    twice = graph.alias(y.key, spec((2, 3)), 0, (0, 1))
    with pytest.raises(SymbolError, match="names a place twice"):
        graph.apply(COPIED, [x], [twice])
    ops.exp(twice)
    verify(graph)


def test_two_outputs_of_one_exec_at_one_place_are_refused(graph: SymbolicGraph) -> None:
    logits, labels = graph.input(spec((2, 3))), graph.input(spec((2,), I32))
    command = graph.execs[graph.writers(ops.softmax_cross_entropy(logits, labels)[0].key)[0]].command
    root = graph.input(spec((8,)))
    loss, probability = root[0:2], ops.reshape(root[1:7], (2, 3))
    with pytest.raises(SymbolError, match="already written"):
        graph.apply(command, [logits, labels], [loss, probability])
    graph.apply(command, [logits, labels], [loss, ops.reshape(root[2:8], (2, 3))])
    verify(graph)


def test_given_outputs_must_have_the_inferred_specs(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4,)))
    with pytest.raises(ShapeError, match=r"outputs f32\[3\]; need f32\[4\]"):
        graph.apply(COPIED, [x], [graph.input(spec((3,)))])
    with pytest.raises(ShapeError):
        graph.apply(COPIED, [x], [graph.input(spec((4,), "f64"))])
    with pytest.raises(ShapeError):
        graph.apply(COPIED, [x], [])


def test_a_reader_follows_the_writers_of_its_places_alone(graph: SymbolicGraph) -> None:
    x, whole = graph.input(spec((2,))), graph.input(spec((6,)))
    graph.apply(EXPONENTIAL, [x], [whole[0:2]])
    ops.exp(whole[4:6])
    graph.apply(COPIED, [x], [whole[2:4]])
    ops.exp(whole[1:3])
    ops.exp(whole[2:3])
    assert [graph.execs.predecessors(key) for key in graph.execs] == [(), (), (), (0, 2), (2,)]
    verify(graph)


def test_empty_tensors_are_tensors(graph: SymbolicGraph) -> None:
    x = graph.input(spec((0, 3)))
    ops.exp(ops.exp(x)[:, 1:2])
    assert graph.execs.predecessors(graph.execs.nodes()[1]) == (0,)
    verify(graph)


# ---- taking out


def test_a_symbol_in_use_stays(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4,)))
    part = x[:2]
    y = ops.exp(part)
    for symbol in (x, part, y):
        with pytest.raises(SymbolError, match="in use"):
            graph.remove_tensor(symbol.key)
    graph.remove_exec(graph.writers(y.key)[0])
    for symbol in (part, y, x):
        graph.remove_tensor(symbol.key)
    assert len(graph.tensors) == len(graph.execs) == 0


def test_a_removed_writer_may_be_replaced(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4,)))
    y = ops.exp(x)
    graph.remove_exec(graph.writers(y.key)[0])
    assert graph.writers(y.key) == graph.readers(x.key) == ()
    graph.apply(COPIED, [x], [y])
    verify(graph)


# ---- what depends on what


def test_needed_for_stops_at_what_is_given(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    a = ops.exp(x)
    b = ops.log(a)
    c = ops.sin(b)
    ops.cos(x)
    assert graph.needed_for([c.key]) == (0, 1, 2)
    assert graph.needed_for([c.key], {a.key}) == (1, 2)
    assert graph.needed_for([c.key, a.key], {b.key}) == (0, 2)
    assert graph.needed_for([c.key], {c.key}) == ()


def test_a_long_chain_needs_no_recursion(graph: SymbolicGraph) -> None:
    y = graph.input(spec(()))
    for _ in range(3000):
        y = y + 1.0
    assert len(graph.needed_for([y.key])) == 3000


# ---- copies and text


def test_a_copy_of_a_part_is_a_graph_of_its_own(graph: SymbolicGraph) -> None:
    x, w = graph.input(spec((4, 3)), "x"), graph.input(spec((3, 2)), "w")
    y = ops.tanh(x @ w)[1:3]
    z = ops.exp(y)
    ops.log(z)
    copy, mapped = graph.subgraph(graph.needed_for([z.key]), [y.key, z.key])
    verify(copy)
    assert len(copy.execs) == 3
    assert copy.inputs_of(copy.execs) == (mapped[x.key], mapped[w.key])
    moved = copy.symbol(mapped[y.key])
    assert (moved.shape, moved.offset, moved.strides) == (y.shape, y.offset, y.strides)
    assert copy.tensors[mapped[x.key]].name == "x"
    assert [record.origin for _, record in copy.execs.items()] == [
        record.origin for _, record in list(graph.execs.items())[:3]
    ]
    ops.exp(copy.symbol(mapped[z.key]))
    assert len(graph.execs) == 4


def test_a_graph_prints_as_text(graph: SymbolicGraph) -> None:
    x, w = graph.input(spec((4, 3)), "x"), graph.input(spec((3, 2)), "w")
    whole = graph.input(spec((4, 4)), "whole")
    y = ops.relu(x @ w).named("y")
    graph.apply(COPIED, [y], [whole[:, 0:2]])
    graph.apply(Command(exp, NoAttrs()), [y], [whole[:, 2:4]])
    ops.reduce_sum(whole[1:3], 0)
    assert without_origins(str(graph)) == (
        "graph g\n"
        "  %0 x: f32[4, 3] = input\n"
        "  %1 w: f32[3, 2] = input\n"
        "  %2 whole: f32[4, 4] = memory\n"
        "  %3: f32[4, 2] = gemm <- %0, %1, –\n"
        "  %4 y: f32[4, 2] = relu <- %3\n"
        "  %5: f32[4, 2] = part of %2 at 0 by [4, 1]\n"
        "  %5 = copy <- %4\n"
        "  %6: f32[4, 2] = part of %2 at 2 by [4, 1]\n"
        "  %6 = exp <- %4\n"
        "  %7: f32[2, 4] = part of %2 at 4 by [4, 1]\n"
        "  %8: f32[4] = reduce_sum(axes=[0]) <- %7"
    )


def test_every_line_of_the_text_names_its_origin(graph: SymbolicGraph) -> None:
    ops.exp(graph.input(spec((3,))))  # exponential in text
    assert str(graph).endswith(f"  # {line_of('exponential in text')}")


def test_records_may_be_appended_directly(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = graph.input(spec((3,)))
    key = graph.add_exec(ExecSymbol(EXPONENTIAL, (x.key,), (y.key,), "named"))
    assert graph.execs[key].name == "named"
    verify(graph)


# ---- shapes that are said later


def test_a_spec_that_is_set_later_is_passed_on(graph: SymbolicGraph) -> None:
    a, w = graph.input(name="a"), graph.input(spec((3, 2)), "w")
    b = ops.exp(a)
    c = graph.apply(ADDED, [b @ w, b @ w], [graph.input(name="c")])[0]
    assert without_origins(str(graph)).splitlines()[1] == f"  %{a.key} a: auto = input"
    with pytest.raises(ShapeError, match="shape of a symbol without a spec") as caught:
        b.shape  # shape too early
    assert caught.value.origin == line_of("shape too early")
    assert faults(graph)[0].startswith("S1: exec 0 names %0, which has no spec yet")
    a.specify(spec((4, 3)))
    assert (b.spec, c.spec) == (spec((4, 3)), spec((4, 2)))
    verify(graph)


def test_a_spec_that_does_not_fit_changes_nothing(graph: SymbolicGraph) -> None:
    a, w = graph.input(name="a"), graph.input(spec((3, 2)), "w")
    b = ops.exp(a)
    b @ w  # product of what is not known
    with pytest.raises(ShapeError, match="gemm: got a=f32") as caught:
        a.specify(spec((4, 5)))
    assert caught.value.origin == line_of("product of what is not known")
    a.specify(spec((4, 3)))
    with pytest.raises(ShapeError, match="need a symbol without a spec"):
        a.specify(spec((4, 3)))


def test_an_output_that_was_specified_must_be_what_is_inferred(graph: SymbolicGraph) -> None:
    a, b = graph.input(), graph.input()
    graph.apply(EXPONENTIAL, [a], [b])  # into b
    b.specify(spec((3,)))
    with pytest.raises(ShapeError, match=r"specified as f32\[3\]; need f32\[4\]") as caught:
        a.specify(spec((4,)))
    assert caught.value.origin == line_of("into b")
    a.specify(spec((3,)))
    verify(graph)


def test_what_has_no_spec_is_written_once_too(graph: SymbolicGraph) -> None:
    a, b = graph.input(), graph.input()
    graph.apply(EXPONENTIAL, [a], [b])
    with pytest.raises(SymbolError, match="already written"):
        graph.apply(COPIED, [a], [b])
    with pytest.raises(SymbolError, match="already read"):
        graph.apply(COPIED, [b], [a])


def test_a_graph_without_all_specs_is_not_compiled(graph: SymbolicGraph) -> None:
    b = ops.exp(graph.input())
    with pytest.raises(ShapeError, match="without a spec"):
        compile(graph, [b])
    with pytest.raises(ShapeError, match="without a spec"):
        backward(graph, [b], [b])


# ---- what places hold that nobody writes


def test_a_fill_is_kept_in_copies_and_texts(graph: SymbolicGraph) -> None:
    x, whole = graph.input(spec((2,)), "x"), graph.input(spec((4,)), "whole", fill=1.0)
    graph.apply(COPIED, [x], [whole[0:2]])
    ops.exp(whole)
    copy, tensors, _ = graph.duplicate()
    assert copy.tensors[tensors[whole.key]].fill == 1.0
    assert dump(parse(dump(graph))) == dump(graph)
    assert "%1 whole: f32[4] = memory holding 1.0" in dump(graph)
    assert [record.fill for _, record in load(save(graph)).tensors.items()][:2] == [None, 1.0]


# ---- given order


def test_an_order_is_given_and_taken_back(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    ops.exp(x)
    ops.log(x)
    first, second = graph.execs
    assert (graph.sources(), graph.destinations()) == ((first, second), (first, second))
    graph.connect(second, first)
    assert (graph.sources(), graph.destinations()) == ((second,), (first,))
    assert graph.execs.toposort() == (second, first)
    verify(graph)
    with pytest.raises(CycleError, match="connect"):
        graph.connect(first, second)
    assert graph.execs[first].optimize is graph.execs[second].optimize is False
    graph.disconnect(second, first)
    assert graph.execs.edges() == ()
    with pytest.raises(GraphError, match="disconnect"):
        graph.disconnect(second, first)


def test_a_given_order_is_kept_in_copies_and_texts_and_by_changed_inputs(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)), "x")
    y, z = ops.exp(x), ops.log(x)
    ops.add(y, z)
    first, second, both = graph.execs
    graph.connect(first, second)
    graph.replace_exec(second, replace(graph.execs[second], inputs=(y.key,)))
    assert len(graph.given_order(second)) == 1
    verify(graph)
    copy, _, execs = graph.duplicate()
    assert [copy.execs.predecessors(execs[key]) for key in (first, second, both)] == [(), (0,), (0, 1)]
    for other in (parse(dump(graph)), load(save(graph)), copy):
        verify(other)
        assert dump(other, origins=False) == dump(graph, origins=False)
    assert "log kept after 0 <- %1" in dump(graph)


def test_an_order_is_no_reason_to_run(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y, z = ops.exp(x), ops.log(x)
    first, second = graph.execs
    graph.connect(first, second)
    assert graph.needed_for([z.key]) == (second,)
    compiled = compile(graph, [y, z], backend="reference")
    assert compiled.planned.order == (first, second)


def test_a_kept_exec_is_not_merged_nor_fused(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    once, again = ops.exp(x), ops.exp(x)
    y = ops.tanh(once * again)
    graph.keep(graph.writers(again.key)[0])
    simplify(graph, [y], list(Pass))
    assert sum(record.command.op is exp for _, record in graph.execs.items()) == 1
    assert not graph.execs[graph.writers(again.key)[0]].optimize


# ---- observers and duplicates


def test_observers_are_told_of_execs_and_symbols(graph: SymbolicGraph) -> None:
    execs: list[int] = []
    tensors: list[int] = []
    x = graph.input(spec((3,)))
    with graph.observed(execs.append, tensors.append):
        y = ops.exp(x[0:2])
    ops.log(y)
    assert (execs, tensors) == ([0], [1, 2])


def test_a_duplicate_is_whole_and_stands_alone(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)), "x")
    y = ops.exp(x)[0:2]
    lonely = graph.input(spec((9,)), "lonely")
    copy, tensors, execs = graph.duplicate()
    verify(copy)
    assert (copy.name, len(copy.tensors), len(copy.execs)) == (graph.name, len(graph.tensors), 1)
    assert copy.tensors[tensors[lonely.key]].name == "lonely"
    assert copy.symbol(tensors[y.key]).offset == y.offset
    copy.remove_exec(execs[graph.writers(y.key)[0]])
    assert len(graph.execs) == 1


def test_a_product_with_a_vector_is_numpys(graph: SymbolicGraph) -> None:
    a, w, v = graph.input(spec((5, 4, 3))), graph.input(spec((3, 2))), graph.input(spec((3,)))
    assert [(a @ w).shape, (a @ v).shape, (v @ w).shape, (v @ v).shape] == [(5, 4, 2), (5, 4), (2,), ()]


def test_an_exec_of_many_inputs_is_appended_in_linear_work(
    graph: SymbolicGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, asked, root = 300, [], SymbolicGraph.root
    inputs = [ops.exp(graph.input(spec((1,)))) for _ in range(count)]
    monkeypatch.setattr(SymbolicGraph, "root", lambda self, key: asked.append(key) or root(self, key))
    ops.concatenate(inputs, 0)
    assert len(asked) <= 10 * count


WRONG: tuple[Any, ...] = (None, "x", [1], {}, 1.5, object(), -1, 99, 2**70, float("nan"), (1,), b"k")


@pytest.mark.parametrize("value", WRONG, ids=lambda value: "object" if type(value) is object else repr(value))
def test_what_is_called_often_says_what_is_wrong_in_our_own_words_too(value: Any) -> None:
    graph = SymbolicGraph()
    graph.input(spec([2]))
    for call in (graph.symbol, graph.root, graph.region, graph.writers, graph.readers, graph.label, graph.own):
        with pytest.raises(UsageError):
            call(value)
    with pytest.raises(ArgumentError, match="need a TensorSymbol"):
        graph.add_tensor(value)
    if value is not None:
        with pytest.raises(ArgumentError, match="need something to call or None"):
            graph.observed(value)
    arena: Arena[int, str] = Arena(int, storage=DictStorage)
    for call in (arena.require, arena.remove, arena.__getitem__):
        with pytest.raises(UnknownKeyError):
            call(value)
    assert value not in arena


def test_a_storage_that_holds_no_records_is_refused_at_once() -> None:
    for storage in (object, "list", 3, None):
        with pytest.raises(ArgumentError, match="storage"):
            SymbolicGraph(storage=storage)  # type: ignore[arg-type]  # what users may try
