"""Profiles: what was run, where, for how long, on which thread; the results stay what they are."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.trace_format import trace_faults

import nnc
from nnc import ops
from nnc.concrete.profiling import machine_peak, profile
from nnc.core.settings import SETTINGS
from nnc.core.values.recorder import PROFILER
from nnc.core.values.spec import spec
from nnc.errors import NncError
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile, scope, while_loop


def graph_of(backend: str) -> tuple[Compiled, Symbol, Symbol]:
    graph = SymbolicGraph()
    x = graph.input(spec((64, 64)), "x")
    with scope("first"):
        y = ops.tanh(x @ x)
    return compile(graph, [y], backend=backend), x, y


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_have_their_layer_operator_and_time_and_results_stay(
    backend: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTINGS, "threads", threads)
    compiled, x, y = graph_of(backend)
    value = np.random.default_rng(0).random((64, 64), dtype=np.float32)
    (before,) = compiled({x: value}, y)
    with nnc.profile() as p:
        (inside,) = compiled({x: value}, y)
    (after,) = compiled({x: value}, y)
    assert np.array_equal(before, inside)
    assert np.array_equal(before, after)
    assert len(p.runs) == 1
    assert {one.backend for one in p.kernels} == {backend}
    assert [row.name for row in p.by_layer()] == ["first"]
    assert sum(row.work for row in p.by_operator()) >= 2 * 64**3
    assert all(p.runs[0].begin <= one.begin <= one.end <= p.runs[0].end for one in p.kernels)
    for one in p.kernels:
        assert len(one.workers) <= threads
        assert all(one.begin <= each.begin <= each.end <= one.end for each in one.workers)
        assert bool(one.workers) == (backend == "llvm")


def test_nothing_is_noted_before_and_behind_it() -> None:
    compiled, x, y = graph_of("reference")
    value = np.ones((64, 64), np.float32)
    with nnc.profile() as outer, nnc.profile() as inner:
        compiled({x: value}, y)
    compiled({x: value}, y)
    assert PROFILER.recorders == ()
    assert len(outer.runs) == len(inner.runs) == 1


def test_an_error_ends_a_profile() -> None:
    with pytest.raises(ZeroDivisionError), nnc.profile():
        raise ZeroDivisionError
    assert PROFILER.recorders == ()


def test_eager_code_and_its_compiled_functions_are_noted_on_each_thread() -> None:
    def work() -> None:
        x = nnc.tensor(np.ones((8, 8), np.float32))
        (x @ x).sum().item()

    doubled = nnc.compile(lambda x: ops.exp(x) * 2)
    expected = doubled(nnc.tensor([1.0, 2.0])).numpy()
    with nnc.profile() as p:
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        again = doubled(nnc.tensor([1.0, 2.0])).numpy()
    assert [one.operator for one in p.kernels].count("gemm") == 2
    assert len(p.lanes()) == 2
    assert any(one.backend != "eager" for one in p.kernels)
    assert np.array_equal(expected, again)
    assert "test_profiling.py" in p.kernels[0].origin


def test_each_iteration_of_a_loop_is_noted() -> None:
    graph = SymbolicGraph()
    x0 = graph.input(spec((4,)), "x0")
    with while_loop(graph, nnc.concrete.CountBelow(3)) as loop:
        x = loop.carry(x0)
        loop.next(x, ops.sin(x))
    result = loop.result(x)
    compiled = compile(graph, [result])
    value = np.ones(4, np.float32)
    (expected,) = compiled({x0: value}, result)
    with nnc.profile() as p:
        (inside,) = compiled({x0: value}, result)
    assert [one.operator for one in p.kernels].count("sin") == 3
    assert np.array_equal(expected, inside)


def test_allocations_are_noted() -> None:
    with nnc.profile() as p:
        compiled, x, y = graph_of("reference")
        compiled({x: np.ones((64, 64), np.float32)}, y)
    (arena,) = [one.nbytes for one in p.allocations if one.label == "arena"]
    assert arena >= compiled.memory().arena  # guards lie around it in debug mode


def test_a_trace_has_lanes_for_threads_and_workers(tmp_path: Path) -> None:
    compiled, x, y = graph_of("llvm")
    with nnc.profile() as p:
        compiled({x: np.ones((64, 64), np.float32)}, y)
    p.trace(tmp_path / "run.json")
    assert trace_faults((tmp_path / "run.json").read_text()) == []
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert {"X", "i", "M"} == {one["ph"] for one in events}
    assert {"thread 0", "worker 0"} <= {one["args"]["name"] for one in events if one["ph"] == "M"}
    assert {"kernel", "worker", "run"} <= {one["cat"] for one in events if one["ph"] == "X"}
    assert all(one["ts"] >= 0 and one["dur"] >= 0 for one in events if one["ph"] == "X")


def test_layers_of_any_name_stay_text_of_a_line() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2,)), "x")
    with scope("\x1b[31m\u202e" + "y" * 1_000_000):
        y = ops.sin(x)
    compiled = compile(graph, [y], backend="reference")
    with nnc.profile() as p:
        compiled({x: np.ones(2, np.float32)}, y)
    assert len(p.chrome_trace()) < 5_000
    assert "\x1b" not in str(p)
    assert len(str(p)) < 2_000


def test_profiles_inside_and_beside_each_other_note_what_ran_while_they_listened() -> None:
    compiled, x, y = graph_of("reference")
    one, two = profile(), profile()
    first = one.__enter__()
    compiled({x: np.ones((64, 64), np.float32)}, y)
    second = two.__enter__()
    with pytest.raises(NncError):
        compiled({x: np.ones((3, 64), np.float32)}, y)
    one.__exit__(None, None, None)
    compiled({x: np.ones((64, 64), np.float32)}, y)
    two.__exit__(None, None, None)
    assert len(first.runs) == len(second.runs) == 1
    assert PROFILER.recorders == ()


def test_the_table_says_what_was_measured() -> None:
    compiled, x, y = graph_of("llvm")
    with nnc.profile() as p:
        compiled({x: np.ones((64, 64), np.float32)}, y)
    text = str(p)
    assert "1 runs" in text
    assert "first" in text
    assert "gemm" in text
    assert machine_peak() > 1e8


def test_streams_run_side_by_side_with_lanes_of_their_own() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((64, 64)), "x")
    ends = [ops.tanh(x @ x), ops.exp(x)]
    compiled = compile(graph, ends, streams=2)
    value = np.ones((64, 64), np.float32)
    expected = compiled({x: value}, *ends)
    with nnc.profile() as p:
        inside = compiled({x: value}, *ends)
    assert all(map(np.array_equal, expected, inside))
    assert sorted(one.operator for one in p.kernels)[0] == "exp"
    assert len(p.lanes()) <= 2
