"""Debug runs find writes beyond what a step may write, and plans whose steps read what is no longer there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from nnc import ops
from nnc.backends.reference.backend import ReferenceBackend
from nnc.concrete import CountBelow
from nnc.core.running.dispatch import DISPATCHER, Kernel, Specs, Tensors
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import spec
from nnc.core.values.storage import ALIGNMENT
from nnc.core.values.tensor import Tensor
from nnc.errors import VerificationError
from nnc.symbolic import SymbolicGraph, compile, while_loop
from nnc.symbolic.compiler.check.lent_memory import check_plan
from nnc.symbolic.compiler.place.planned import PlannedGraph

pytestmark = pytest.mark.usefixtures("debug")
Damage = Callable[[Tensor], int]


def offsets_of(planned: PlannedGraph) -> dict[int, int]:
    """Per block its offset in the arena."""
    return {id(life): offset for life, offset in planned.layout.placed()}


@dataclass(frozen=True, slots=True, eq=False)
class Careless:
    """A kernel that also writes one byte somewhere in the storage of its output."""

    inner: Kernel
    damage: Damage
    workspace_bytes: int = 0
    worker_bytes: int = 0

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        self.inner.run(inputs, outputs, None)
        (output,) = outputs
        assert output is not None
        output.storage.bytes[self.damage(output)] ^= 1


@dataclass(frozen=True)
class CarelessBackend(ReferenceBackend):
    """The reference, with a careless sine."""

    damage: Damage = field(default=lambda output: 0)
    name: str = "careless"

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:  # type: ignore[override]
        kernel = ReferenceBackend().kernel(command, inputs, outputs)
        return Careless(kernel, self.damage) if command.op.name == "sin" else kernel


@pytest.mark.parametrize(
    ("damage", "owner"),
    [
        (lambda output: output.offset + output.spec.nbytes, "which nobody holds"),
        (lambda output: output.storage.nbytes - 1, "which nobody holds"),
        (lambda output: 0, "which nobody holds"),
        (lambda output: ALIGNMENT + 8, r"which %2 exp: f32\[4\] holds"),
    ],
)
@pytest.mark.parametrize("streams", [1, 2])
def test_who_writes_beside_his_own_memory_is_named(
    monkeypatch: pytest.MonkeyPatch, damage: Damage, owner: str, streams: int
) -> None:
    # Kernels are kept by the name of their backend.
    name = f"careless {id(damage)}"
    monkeypatch.setitem(DISPATCHER.backends, name, CarelessBackend(name, damage))
    graph = SymbolicGraph()
    x = graph.input(spec((4,)))
    kept = ops.exp(ops.affine(x, 2.0))
    y = ops.sin(kept)
    z = ops.affine(y, 3.0) * kept
    compiled = compile(graph, [z, kept], backend=name, streams=streams)
    kept_place = compiled.tensor(kept)
    if "holds" in owner and "nobody" not in owner:
        assert kept_place.offset == ALIGNMENT
    compiled.write(x, np.ones(4))
    with pytest.raises(
        VerificationError, match=rf"sin of %3 sin: f32\[4\] \(test_writes.py:\d+\) changed byte -?\d+ .*{owner}"
    ):
        compiled.run()


def test_a_step_that_reads_what_another_has_written_over_is_named() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4)), "x"), graph.input(spec((4, 4)), "w")
    y = x @ w
    z = y @ x
    compiled = compile(graph, [z], backend="reference")
    planned = compiled.planned
    offsets = offsets_of(planned)
    check_plan(planned, offsets)
    offsets[id(planned.lives.of[y.key])] = offsets[id(planned.lives.of[x.key])]
    message = (
        r"gemm of %2 gemm: f32\[4, 4\] \(test_writes.py:\d+\) writes over %0 x: f32\[4, 4\], which it reads out of step"
    )
    with pytest.raises(VerificationError, match=message):
        check_plan(planned, offsets)


def test_a_value_that_is_written_over_too_early_is_found_by_its_reader() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((8, 8)), "x")
    a = ops.exp(x).named("a")
    wide = ops.broadcast_to(ops.reshape(ops.reduce_sum(a), (1, 1)), (64, 64)).named("wide")
    z = a @ ops.reshape(ops.reduce_sum(wide, 1), (8, 8))
    compiled = compile(graph, [z], backend="reference")
    planned = compiled.planned
    early, late = planned.lives.of[a.key], planned.lives.of[wide.key]
    offsets = offsets_of(planned)
    offsets[id(late)] = offsets[id(early)]
    message = r"gemm of .* reads %1 a: f32\[8, 8\], whose bytes broadcast_to of .*wide.* has written over"
    with pytest.raises(VerificationError, match=message):
        check_plan(planned, offsets)


def test_a_wanted_value_that_is_written_over_is_found_at_the_end() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((8,)), "x")
    a = ops.sin(x).named("a")
    y = ops.broadcast_to(ops.reduce_sum(x), (16,))
    planned = compile(graph, [a, y], backend="reference").planned
    early, late = planned.lives.of[a.key], planned.lives.of[y.key]
    offsets = offsets_of(planned)
    offsets[id(late)] = offsets[id(early)]
    with pytest.raises(VerificationError, match=r"the end of the run reads %1 a: f32\[8\], whose bytes"):
        check_plan(planned, offsets)


def test_a_block_of_a_body_on_what_its_step_uses_is_named() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4)), "x"), graph.input(spec((4, 4)), "w")
    with while_loop(graph, CountBelow(3)) as loop:
        state = loop.carry(x)
        loop.next(state, ops.sin(state @ w) @ state)
    planned = compile(graph, [loop.result(state)], backend="reference").planned
    ((inside, *_),) = planned.lives.inside.values()
    offsets = offsets_of(planned)
    check_plan(planned, offsets)
    offsets[id(inside)] = offsets[id(planned.lives.of[w.key])]
    with pytest.raises(VerificationError, match=r"gemm of .* writes over %2 w: f32\[4, 4\], which it reads"):
        check_plan(planned, offsets)


def test_two_results_in_the_same_bytes_are_named() -> None:
    graph = SymbolicGraph()
    values, places = ops.sort(graph.input(spec((8,))))
    planned = compile(graph, [values, places], backend="reference").planned
    offsets = offsets_of(planned)
    offsets.update((id(planned.lives.of[symbol.key]), 0) for symbol in (values, places))
    with pytest.raises(VerificationError, match=r"writes %1 sort: f32\[8\] and %2 sort: i64\[8\] to the same bytes"):
        check_plan(planned, offsets)
