from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from nnc import ops
from nnc.backends.llvm.assembly import Assembly
from nnc.backends.reference.backend import NumpyKernel, ReferenceBackend
from nnc.core.running.dispatch import DISPATCHER, Call, Program, Specs, Tensors
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import spec
from nnc.core.values.storage import trim_free_memory
from nnc.core.values.tensor import Tensor
from nnc.errors import VerificationError
from nnc.ops.convolutions.window import window_of
from nnc.planning import Plan, Problem, solve
from nnc.symbolic import SymbolicGraph, backward, compile
from nnc.symbolic.compiler.place import memory as memory_module
from nnc.symbolic.compiler.place.slots import aligned

SCRATCH = 1000
WINDOW = window_of(3)
shared_arena = import_module("nnc.symbolic.compiler.shared_arena")


@dataclass(frozen=True, slots=True, eq=False)
class Scribbling:
    """A kernel that fills its scratch memory before it computes."""

    inner: NumpyKernel
    workspace_bytes: int = SCRATCH
    worker_bytes: int = 0

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        assert workspace is not None
        assert workspace.spec.nbytes == SCRATCH
        workspace.numpy()[...] = 0xFF
        self.inner.run(inputs, outputs, None)


class ScribblingBackend(ReferenceBackend):
    """The reference, with scratch memory for matrix products."""

    name = "scribbling"

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> NumpyKernel | Scribbling:
        kernel = ReferenceBackend().kernel(command, inputs, outputs)
        return Scribbling(kernel) if command.op.name == "gemm" else kernel

    def program(self, calls: Sequence[Call]) -> Program:
        return ReferenceBackend().program(calls)


def test_a_statement_is_exact_and_known_before_memory_is() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((8, 16)), "x"), graph.input(spec((16, 4)), "w")
    loss = ops.reduce_mean(ops.square(ops.tanh(x @ w)))
    (slope,) = backward(graph, [loss], [w])
    compiled = compile(graph, [loss, slope], given={w: Tensor.zeros(w.spec)}, backend="reference")
    statement = compiled.memory()
    assert statement.lower_bound <= statement.arena < statement.without_reuse
    assert statement.optimal == (statement.arena == statement.lower_bound)
    assert (statement.workspace, statement.bound) == (0, 16 * 4 * 4)
    compiled({x: np.ones((8, 16))})
    storage = compiled.tensor(x).storage
    assert storage.nbytes == statement.arena
    assert compiled.tensor(slope).storage is storage
    used = [compiled.tensor(graph.symbol(root)) for root in compiled.planned.lives.of]
    assert max(tensor.offset + tensor.spec.nbytes for tensor in used) <= statement.arena
    assert statement.without_reuse == sum(tensor.spec.nbytes for tensor in used)
    assert all(tensor.offset % 64 == 0 for tensor in used)


def test_a_statement_names_the_peak_with_lines() -> None:
    graph, line = SymbolicGraph(), inspect.currentframe().f_lineno  # type: ignore[union-attr]  # there is a frame
    x = graph.input(spec((100,)), "x")
    wide = ops.broadcast_to(ops.reshape(x, (100, 1)), (100, 50)).named("wide")
    y = ops.reduce_sum(wide)
    statement = compile(graph, [y], backend="reference").memory()
    assert statement.peak_step == 0
    wide_line, x_line = (f"test_memory.py:{number}" for number in (line + 2, line + 1))
    assert statement.peak_tensors == (f"%2 wide: f32[100, 50] ({wide_line})", f"%0 x: f32[100] ({x_line})")
    assert (statement.inputs, statement.outputs, statement.arenas) == (400, 4, {"cpu:0": 20480})
    assert statement.arena == 20032 + 448
    assert str(statement) == (
        "arena 20480 B (lower bound 20480 B, in any order 20400 B, without reuse 20404 B, 100%), workspace 0 B, "
        f"bound tensors 0 B; peak at step 0: %2 wide: f32[100, 50] ({wide_line}), %0 x: f32[100] ({x_line})"
    )


def test_scratch_memory_is_planned_and_touches_nothing_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISPATCHER.backends, "scribbling", ScribblingBackend())
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4)), "x"), graph.input(spec((4, 4)), "w")
    y = ops.tanh(x @ w) @ w
    values = {x: np.full((4, 4), 0.25), w: np.eye(4)}
    want = compile(graph, [y], backend="reference")(values, y)[0]
    compiled = compile(graph, [y], backend="scribbling")
    np.testing.assert_array_equal(compiled(values, y)[0], want)
    statement = compiled.memory()
    assert statement.workspace == SCRATCH
    assert statement.without_reuse == 5 * 64 + 2 * SCRATCH
    assert statement.arena == 3 * 64 + 1024
    assert any(name.startswith("workspace of gemm of %") for name in statement.peak_tensors)


def test_copies_of_operands_with_gaps_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the channels of x: a convolution reads them without gaps, so they are copied into the arena first."""
    graph = SymbolicGraph()
    x, w = graph.input(spec((1, 8, 8, 32)), "x"), graph.input(spec((3, 3, 16, 16)), "w")
    y = ops.convolution(ops.tanh(x)[:, :, :, 8:24], w, window=WINDOW)
    generator = np.random.default_rng(0)
    values = {symbol: generator.standard_normal(symbol.shape).astype(np.float32) for symbol in (x, w)}
    want = compile(graph, [y], backend="reference")(values, y)[0]
    compiled = compile(graph, [y], backend="llvm")
    bare = compile(graph, [ops.convolution(graph.input(spec((1, 8, 8, 16))), w, window=WINDOW)], backend="llvm")
    assert compiled.memory().workspace == aligned(bare.memory().workspace) + 8 * 8 * 16 * 4

    def refuse(self: Assembly, size: int) -> None:
        raise AssertionError(f"{size} bytes outside of the plan")

    monkeypatch.setattr(Assembly, "_allocate", refuse)
    np.testing.assert_allclose(compiled(values, y)[0], want, rtol=1e-4, atol=1e-4)


def test_what_planning_leaves_behind_is_given_back_for_large_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(shared_arena, "trim_free_memory", lambda: calls.append("trim"))
    graph = SymbolicGraph()
    x = graph.input(spec((64,)), "x")
    compile(graph, [ops.tanh(x)], backend="reference").allocate()
    assert not calls
    wide = ops.reduce_sum(ops.broadcast_to(x, (1 << 16, 64)))
    compiled = compile(graph, [wide], backend="reference")
    assert calls == ["trim"]
    compiled.allocate()
    assert calls == ["trim", "trim"]
    trim_free_memory()


def test_a_plan_with_a_fault_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(problem: Problem, **options: Any) -> Plan:
        plan = solve(problem, **options)
        return replace(plan, offsets=tuple(0 for _ in plan.offsets))

    monkeypatch.setattr(memory_module, "solve", careless)
    graph = SymbolicGraph()
    x = graph.input(spec((4, 4)))
    with pytest.raises(VerificationError, match="memory plan"):
        compile(graph, [x @ x], backend="reference")
