"""Programs of several ranks from the disk: a second launch plans nothing, and has the same bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parallel.ranks_as_threads import run_ranks
from tests.program_folder import entries, folder

from nnc import nn
from nnc.core.precautions.disk_cache import DiskCache
from nnc.graph import Registry
from nnc.nn.steps.step_graph import TracedStep
from nnc.ops import affine
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.operand import apply
from nnc.ops.rules import NoAttrs
from nnc.parallel import Mesh, Pipeline
from nnc.parallel.pipelining import SCHEDULES
from nnc.symbolic import Compiled
from nnc.symbolic.compiler.stored_programs import restored_parts, stored_program
from nnc.symbolic.kept.kept_graphs import FEWEST_EXECS, OTHER_FORMS, CachedGraph

__all__ = ["folder"]
X = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)
Y = np.arange(8) % 3


def trained(mesh: Mesh, **options: Any) -> list[tuple[bytes, set[type]]]:
    """Of each rank the bits that two updates leave, and what its step of training is."""

    def work(rank: int) -> tuple[bytes, set[type]]:
        tower = nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dense(8), nn.Tanh(), nn.ColumnParallel(nn.Dense(4)))
        model = nn.Model(tower, (6,), optimizer=nn.Adam(0.05), mesh=mesh, **options)
        place = mesh.own_place()[0]
        own = slice(place * 8 // mesh.data, (place + 1) * 8 // mesh.data)
        losses = [model.train_on_batch(X[own], Y[own])[0] for _ in range(2)]
        kinds = {type(planned.step.program) for planned in model._programs.kept.values()}
        return np.concatenate([losses, *(value.ravel() for value in model.state_dict().values())]).tobytes(), kinds

    return run_ranks(mesh.size, work)


def refuse(*_: object) -> None:
    raise AssertionError("planned")


MESHES: dict[str, tuple[Mesh, dict[str, Any]]] = {
    "data": (Mesh(data=2), {}),
    "shards": (Mesh(data=2), {"zero_stage": 3, "nan_guard": True}),
    "few bits": (Mesh(data=2), {"compress": "int8"}),
    "products": (Mesh(tensor=2), {}),
    "stages": (Mesh(pipe=2), {"pipeline": Pipeline(2)}),
}


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", MESHES)
def test_ranks_of_a_second_launch_run_neither_passes_nor_planner(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh, options = MESHES[name]
    first = trained(mesh, **options)
    monkeypatch.setattr(TracedStep, "drafted", refuse)
    second = trained(mesh, **options)
    assert [bits for bits, _ in second] == [bits for bits, _ in first]
    assert all(kinds == {CachedGraph} for _, kinds in second)


def test_another_schedule_of_stages_is_another_program() -> None:
    gpipe, early = (trained(Mesh(pipe=2), pipeline=Pipeline(2, schedule=schedule)) for schedule in SCHEDULES)
    assert [bits for bits, _ in early] == [bits for bits, _ in gpipe]
    # The first of two stages does the same by both.
    assert [kinds for _, kinds in early] == [{CachedGraph}, {Compiled}]


def _double(attrs: NoAttrs, inputs: Arrays, outputs: Any) -> None:
    assert inputs[0] is not None
    outputs[0][...] = 2 * inputs[0]


class Doubled(nn.Layer):
    """An operator of a user's, whose code nobody knows by its name."""

    op = custom_operator(
        "doubled",
        infer=lambda attrs, specs: specs,
        kernel=_double,
        gradient=lambda call, gradients: tuple(None if each is None else affine(each, 2.0) for each in gradients),
        registry=Registry("nnc of a test's"),
    )

    def build(self, scope: Any, x: Any) -> Any:
        return apply(self.op, NoAttrs(), x)


def test_a_program_with_an_operator_of_a_users_is_not_kept(folder: Path) -> None:
    model = nn.Model(nn.Sequential(nn.Dense(8), nn.ReLU(), Doubled(), nn.Dense(3)), (6,))
    model.train_on_batch(X, Y)
    assert len(model.training_step(8).compiled.planned.order) > FEWEST_EXECS
    assert entries(folder) == []


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an operator that there is not": lambda call: call["command"].__setitem__("op", "nothing"),
    "a registry that there is not": lambda call: call.__setitem__("registry", "nothing"),
    "an operator of numbers": lambda call: call.update(registry="nnc", command={"op": "relu", "attributes": {}}),
    "other attributes": lambda call: call["command"]["attributes"].__setitem__("group", 3),
    "an operand behind the arena": lambda call: call["inputs"][0].__setitem__("offset", 1 << 40),
    "memory that there is not": lambda call: call["outputs"][0].__setitem__("span", 99),
    "no operands": lambda call: call.__setitem__("inputs", None),
}


def test_a_record_with_another_call_is_refused_and_planned_anew(folder: Path) -> None:
    first = trained(Mesh(data=2))
    cache = DiskCache(folder, "program", ".json")
    (entry,) = entries(folder)
    content = cache.load(entry.stem) or b""
    assert restored_parts(stored_program(json.loads(content)["program"]))
    for change in CHANGES.values():
        values = json.loads(content)
        change(next(call for part in values["program"]["parts"] for call in part.get("calls", ())))
        with pytest.raises(OTHER_FORMS):
            restored_parts(stored_program(values["program"]))
    cache.store(entry.stem, json.dumps(values).encode())
    again = trained(Mesh(data=2))
    assert [bits for bits, _ in again] == [bits for bits, _ in first]
    assert [kinds for _, kinds in again] == [{Compiled}] * 2
