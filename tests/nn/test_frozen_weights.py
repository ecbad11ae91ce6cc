"""Frozen steps hold weights as kernels read them, in memory that is stated, and give the bits of those that do not."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from nnc import nn
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.dtype import BF16, DType
from nnc.core.values.spec import Blocked
from nnc.core.values.storage import Storage
from nnc.nn.steps import frozen_steps
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.planning import faults

pytestmark = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="LLVM is absent")
# Few tiles of rows, and 1 KiB from step to step: these weights are packed also where others are best read in place.
BATCH = 16


def network(**options: object) -> nn.Model:
    layer = nn.Sequential(
        nn.Convolution(32, kernel=3, stride=2),
        nn.BatchNorm(),
        nn.ReLU(),
        nn.Convolution(40, kernel=1),
        nn.Flatten(),
        nn.Dense(288),
        nn.ReLU(),
        head=nn.Dense(33),
    )
    return nn.Model(layer, (9, 9, 16), **options)  # type: ignore[arg-type]  # options by name


def images() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((BATCH, 9, 9, 16), dtype=np.float32)


@pytest.mark.parametrize("precision", [None, BF16], ids=str)
def test_blocks_change_no_bit(precision: DType | None, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = network(precision=precision), images()
    step, blocked = model.freeze(BATCH), model.memory(BATCH, "freeze")
    want = step.run(x)[0].tobytes()
    program = model._programs.plan(StepKey(StepKind.FREEZE, BATCH))
    assert sum(isinstance(symbol.spec.layout, Blocked) for symbol in program.frozen) > 0
    assert step.passes[-1].fired["blocked"] > 0
    assert faults(*step.compiled.plan()) == ()
    assert model.freeze(BATCH).run(x)[0].tobytes() == want
    with ThreadPoolExecutor(2) as threads:
        assert {found.tobytes() for (found,) in threads.map(lambda _: step.run(x), range(4))} == {want}
    monkeypatch.setattr(frozen_steps, "assign_blocks", lambda *given: Counter())
    other = network(precision=precision)
    other.load_state_dict(model.state_dict())
    assert other.freeze(BATCH).run(x)[0].tobytes() == want
    plain = other.memory(BATCH, "freeze")
    assert blocked.weights <= 1.25 * plain.weights
    assert blocked.step.arena <= plain.step.arena
    assert blocked.step.scratch <= plain.step.scratch


def test_the_bytes_of_frozen_weights_are_those_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    stated, allocate, taken = model.memory(BATCH, "freeze"), Storage.allocate, Counter[str]()

    def counted(nbytes: int, label: str = "") -> Storage:
        taken[label] += nbytes
        return allocate(nbytes, label)

    monkeypatch.setattr(Storage, "allocate", counted)
    step = model.freeze(BATCH)
    assert taken["frozen weight"] == stated.weights == step.compiled.memory().bound


def test_a_frozen_step_goes_to_other_weights_in_blocks() -> None:
    model, x = network(), images()
    step = model.freeze(BATCH)
    want = step.run(x)[0]
    tensors = step.compiled.bindings.tensors
    frozen = model._programs.plan(StepKey(StepKind.FREEZE, BATCH)).frozen
    zeros = {}
    for symbol in frozen:
        own = tensors[symbol.key]
        assert own is not None
        zeros[symbol] = own.clone()
    moved = replace(step, program=step.compiled.rebind(zeros))
    assert moved.run(x)[0].tobytes() == want.tobytes()
    for tensor in zeros.values():
        tensor.storage.bytes.fill(0)
    assert not moved.run(x)[0].any()
    assert step.run(x)[0].tobytes() == want.tobytes()


@pytest.mark.parametrize("options", [{"backend": "reference"}, {"backend": "blas"}], ids=str)
def test_a_model_of_another_backend_keeps_its_weights_in_order(options: dict[str, object]) -> None:
    model = nn.Model(nn.Sequential(nn.Dense(96), nn.Dense(96)), (64,), **options)  # type: ignore[arg-type]  # by name
    frozen = model._programs.plan(StepKey(StepKind.FREEZE, BATCH)).frozen
    assert not any(isinstance(symbol.spec.layout, Blocked) for symbol in frozen)


def test_deterministic_steps_have_blocks_too() -> None:
    assert network(deterministic=True).freeze(BATCH).passes[-1].fired["blocked"] > 0
