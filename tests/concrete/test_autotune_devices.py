"""Autotune on devices: claims run where the tensors are, are waited for, and are kept by the device's name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import count

import numpy as np
import pytest
from tests.simulated_device import SimulatedKernel, SimulatedMachine, simulated

from nnc.concrete import TuneCache, TuneOptions, tune
from nnc.concrete.autotune import copy_all
from nnc.concrete.choices import cache_key
from nnc.core.running.dispatch import DISPATCHER, Kernel, Specs
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import Device
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.ops.elementwise.pointwise import add
from nnc.ops.rules import NoAttrs

THERE = Device("cuda")
SUM = Command(add, NoAttrs())


def numbers() -> Tensor:
    return Tensor.from_numpy(np.arange(6, dtype=np.float32)).to(THERE)


def test_claims_of_a_device_are_measured_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def variants(machine: SimulatedMachine, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        kernel = machine.kernel(command, inputs, outputs)
        assert isinstance(kernel, SimulatedKernel)
        return {"other tiles": kernel}

    monkeypatch.setattr(SimulatedMachine, "variants", variants)
    with simulated() as machine:
        x, y, cache = numbers(), Tensor.zeros(spec((6,)).on(THERE)), TuneCache(None)
        before = machine.driver.counts["download"]
        # Each claim takes one tick: by a real clock the second may look hopeless and not be run again.
        ticks = partial(next, count(0.0))
        for _ in range(2):
            tune(SUM, (x, x), (y,), DISPATCHER, TuneOptions(rounds=1, cache=cache, clock=ticks))
        # Of two claims a first run and a round with what stands before and behind; of the second call nothing.
        assert machine.driver.counts["synchronize"] == 6
        assert machine.driver.counts["download"] == before
        assert not y.to(Device()).numpy().any()


def test_copies_lie_in_memory_of_the_device_as_the_originals_do() -> None:
    with simulated():
        whole = numbers()
        part, apart = whole.view(spec((2,)).on(THERE), 3, (1,)), numbers()
        copies = copy_all((whole, part, apart))
        assert all(copy is not None and copy.spec.device == THERE for copy in copies)
        for copy, original in zip(copies, (whole, part, apart), strict=True):
            assert copy is not None
            np.testing.assert_array_equal(copy.to(Device()).numpy(), original.to(Device()).numpy())
        first, second, third = copies
        assert first is not None
        assert second is not None
        assert third is not None
        assert (second.address - first.address, first.storage is second.storage) == (12, True)
        assert third.storage is not first.storage


def test_a_choice_is_that_of_a_device_by_its_name() -> None:
    with simulated():
        assert cache_key(SUM, (numbers(),), (numbers(),), ("a", "b")).startswith("simulated cuda:0 | a b | add")
