from __future__ import annotations

import threading

import pytest

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs
from nnc.symbolic import SymbolicGraph, backward, compile, minimize, scope
from nnc.symbolic.text import dump


def test_what_is_made_inside_is_named_after_the_scopes() -> None:
    graph = SymbolicGraph("net")
    x = graph.input(spec((4, 3)), "x")
    with scope("encoder") as outer, scope("block1") as inner:
        w = graph.input(spec((3, 2)), "w")
        hidden = ops.tanh(x @ w).named("hidden")
    y = ops.exp(hidden)
    assert (outer, inner) == ("encoder", "encoder.block1")
    assert [symbol.name for symbol in (x, w, hidden, y)] == ["x", "encoder.block1.w", "encoder.block1.hidden", ""]
    assert dump(graph, origins=False) == (
        "graph net\n"
        "  %0 x: f32[4, 3] = input\n"
        "  %1 encoder.block1.w: f32[3, 2] = input\n"
        "  %2: f32[4, 2] = gemm as encoder.block1.gemm <- %0, %1, –\n"
        "  %3 encoder.block1.hidden: f32[4, 2] = tanh as encoder.block1.tanh <- %2\n"
        "  %4: f32[4, 2] = exp <- %3"
    )


def test_a_state_is_named_after_its_parameter_alone() -> None:
    graph = SymbolicGraph()
    with scope("top"):
        w = graph.input(spec((3,)), "w")
        done = minimize(graph, Command(SGD, SGDAttrs()), [ops.reduce_sum(w)], [w])
    assert done.updates[0].states[0].name == "top.w.momentum"


def test_a_scope_is_closed_by_an_error_and_belongs_to_its_thread() -> None:
    graph, names = SymbolicGraph(), []
    with pytest.raises(ZeroDivisionError), scope("left"):
        raise ZeroDivisionError
    with scope("here"):
        thread = threading.Thread(target=lambda: names.append(graph.input(spec(()), "there").name))
        thread.start()
        thread.join()
    assert (names, graph.input(spec(()), "x").name) == (["there"], "x")


def test_blocks_say_where_their_tensor_is_made_and_what_made_it() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 3)), "x")
    with scope("encoder"), scope("block1"):
        y = ops.tanh(x)
    z = ops.exp(y)
    (gradient,) = backward(graph, [z], [x])
    assert [graph.label(one.key) for one in (x, y, z)] == [
        "%0 x: f32[4, 3]",
        "%1 encoder.block1 · tanh: f32[4, 3]",
        "%2 exp: f32[4, 3]",
    ]
    assert "encoder.block1 · gradient of tanh" in graph.label(gradient.key)
    assert any("gradient of exp" in record.title for _, record in graph.execs.items())


def test_what_runs_again_says_so() -> None:
    graph = SymbolicGraph()
    x = y = graph.input(spec((64, 64)), "x")
    for number in range(8):
        with scope(f"layer{number}"):
            y = ops.tanh(y)
    (gradient,) = backward(graph, [y], [x])
    free = compile(graph, [gradient]).memory().arena
    limited = compile(graph, [gradient], memory_limit=free * 3 // 4)
    names = [span.name for span in limited.planned.layout.spans]
    assert any(name.split(": ")[0].endswith("· tanh again") for name in names)
