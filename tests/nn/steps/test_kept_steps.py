"""Steps of models from the disk: the bits of those that were planned, for the same graph alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.program_folder import entries, folder

import nnc
from nnc import nn
from nnc.backends.llvm.run.profile import MOST_TIMES
from nnc.core.precautions import disk_cache
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import BF16, F32, I32
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError, ShapeError, SymbolError, UsageError
from nnc.nn.steps.step_graph import TracedStep
from nnc.symbolic import Compiled
from nnc.symbolic.kept.kept_graphs import CachedGraph
from nnc.symbolic.passes import Pass
from nnc.symbolic.sharing import program_disk

__all__ = ["folder"]
RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((16, 12)).astype(np.float32)
Y = RANDOM.integers(0, 4, 16).astype(np.int32)


def layers(width: int = 24, *, drop: float = 0.2) -> nn.Sequential:
    return nn.Sequential(
        nn.Dense(width), nn.BatchNorm(), nn.ReLU(), nn.Dropout(drop), nn.Dense(width), nn.Tanh(), nn.LayerNorm(),
        nn.Dense(4),
    )  # fmt: skip


def network(**options: Any) -> nn.Model:
    return nn.Model(layers(), (12,), **{"optimizer": nn.Adam(0.01), "seed": 3, **options})


def trained(model: nn.Model) -> list[bytes]:
    """All that training, evaluation and prediction give."""
    steps = [model.train_on_batch(X, Y) for _ in range(3)]
    steps.append(model.backward(X, Y))
    model.apply_gradients()
    scores = model.evaluate(X, Y)
    state = [value.copied().tobytes() for value in model.tensors().values()]
    return [np.array(steps).tobytes(), repr(scores).encode(), model.predict(X).tobytes(), *state]


def programs(model: nn.Model) -> list[type]:
    return [type(planned.step.program) for planned in model._programs.kept.values()]


def test_a_second_model_of_the_same_graph_runs_neither_passes_nor_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    first = network()
    answers = trained(first)
    assert set(programs(first)) == {Compiled}

    def refuse(_: object) -> None:
        raise AssertionError("the step is planned")

    monkeypatch.setattr(TracedStep, "drafted", refuse)
    second = network()
    assert trained(second) == answers
    assert set(programs(second)) == {CachedGraph}
    assert len(programs(second)) == 5


def test_it_says_the_same_of_its_memory_with_the_lines_of_now() -> None:
    first = network()
    trained(first)
    second = network()
    for kind in ("train", "predict", "evaluate"):
        one, other = first.memory(16, kind), second.memory(16, kind)
        assert re.sub(r":\d+\)", "", str(one.step)) == re.sub(r":\d+\)", "", str(other.step))
        assert one.step.arenas == other.step.arenas
        # What is loaded has fewer objects, and nobody planned it in this process.
        assert other.step.making < one.step.making
    inputs = [text for text in second.memory(16).step.peak_tensors if "input" in text]
    here = np.array(X)  # another line than the one that was kept
    third = network()
    third.train_on_batch(here, Y)
    lines = [text for text in third.memory(16).step.peak_tensors if "input" in text]
    assert inputs
    assert lines
    assert lines != inputs


def test_who_asks_for_a_plan_gets_the_program_with_its_graph() -> None:
    answers = trained(network())
    model = network()
    model.train_on_batch(X, Y)
    step = model.training_step(16)
    assert isinstance(step.program, CachedGraph)
    assert step.compiled.memory().as_loaded() == step.program.memory()
    assert step.compiled is step.compiled
    assert step.compiled.plan()[1].arena_bytes == step.program.memory().arena
    assert step.passes[0].name
    assert "<svg" in step.compiled.page() or "html" in step.compiled.page()
    again = network()
    again.training_step(16).compiled.plan()
    assert trained(again) == answers


class Scaled(nn.Layer):
    """A layer of a user's, whose graph depends on what its code reads."""

    def __init__(self, scale: Callable[[], float]) -> None:
        self.scale = scale

    def build(self, scope: Any, x: Any) -> Any:
        y = x
        for _ in range(12):
            y = y * self.scale() + 1.0
        return y


FACTOR = 0.5


def test_what_a_users_layer_reads_makes_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer() -> bytes:
        factor = FACTOR
        model = nn.Model(nn.Sequential(Scaled(lambda: FACTOR), Scaled(lambda: factor), nn.Dense(3)), (12,), seed=1)
        assert model.predict(X).shape == (16, 3)
        return bytes(model.predict(X).tobytes())

    first = answer()
    assert answer() == first
    monkeypatch.setitem(globals(), "FACTOR", 0.25)
    second = answer()
    assert second != first
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    assert answer() == second


OTHERS: dict[str, Callable[[], nn.Model]] = {
    "another width": lambda: nn.Model(layers(25), (12,), optimizer=nn.Adam(0.01), seed=3),
    "another rate of dropout": lambda: nn.Model(layers(drop=0.3), (12,), optimizer=nn.Adam(0.01), seed=3),
    "another optimizer": lambda: network(optimizer=nn.SGD(0.01)),
    "other constants of it": lambda: network(optimizer=nn.Adam(0.01, beta2=0.99)),
    "another seed": lambda: network(seed=4),
    "another precision": lambda: network(precision=BF16),
    "a limit": lambda: network(memory_limit=1 << 20),
    "other passes": lambda: network(passes=(Pass.ALGEBRA,)),
    "another arena": lambda: network(arena=nnc.arena("1MB")),
    "clipped gradients": lambda: network(clip_norm=1.0),
    "fixed kernels": lambda: network(deterministic=True),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_made_otherwise_is_another_program(folder: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    trained(network())
    model = OTHERS[other]()
    answers = trained(model)
    assert CachedGraph not in programs(model)[:1]
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    assert trained(OTHERS[other]()) == answers


def test_other_sizes_are_other_programs() -> None:
    alone = [network().predict(X[:count]) for count in (16, 5)]
    kept = network()
    assert [kept.predict(X[:count]).tobytes() for count in (16, 5)] == [each.tobytes() for each in alone]


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Give each entry another content, with a checksum that fits."""
    cache = DiskCache(folder, "program", ".json")
    for entry in entries(folder):
        values = json.loads(cache.load(entry.stem) or b"")
        change(values)
        cache.store(entry.stem, json.dumps(values).encode())


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no program": lambda v: v.pop("program"),
    "fewer tensors": lambda v: v["program"]["bound"].pop(),
    "tensors of other sizes": lambda v: v["program"]["bound"].reverse(),
    "fewer outputs": lambda v: v["program"]["outputs"].clear(),
    "an input behind the arena": lambda v: v["program"]["inputs"][0].__setitem__("offset", 1 << 40),
    "an operand behind its tensor": lambda v: v["program"]["parts"][0]["launches"][0]["operands"].__setitem__(
        0, [1, 1 << 40]
    ),
    "a line that there is not": lambda v: v["peak_tensors"][0].__setitem__(1, 10_000_000),
    "written tensors that there are not": lambda v: v["written"].append(10_000),
    "no list": lambda v: v.__setitem__("written", 3),
    "three parts": lambda v: v["program"]["parts"].extend([{}, {}]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_is_none_is_not_used(folder: Path, change: str) -> None:
    model = network()
    answer = model.train_on_batch(X, Y), model.predict(X).tobytes()
    changed(folder, CHANGES[change])
    again = network()
    assert (again.train_on_batch(X, Y), again.predict(X).tobytes()) == answer
    assert CachedGraph not in programs(again)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_entry_is_made_again(folder: Path, damage: str) -> None:
    answers = trained(network())
    for entry in entries(folder):
        content = bytearray(entry.read_bytes())
        content[len(content) // 2] ^= 1
        entry.write_bytes({"cut": content[: len(content) // 2], "changed": content, "empty": b""}[damage])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        again = network()
        assert trained(again) == answers
    assert CachedGraph not in programs(again)
    assert CachedGraph in programs(_used(network()))


def _used(model: nn.Model) -> nn.Model:
    trained(model)
    return model


def test_a_full_disk_keeps_nothing_and_harms_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache.os, "replace", full)
        answers = trained(network())
    assert entries(folder) == []
    assert trained(network()) == answers


def test_other_sources_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = trained(network())
    monkeypatch.setattr(program_disk, "makers_digest", lambda: "of another version")
    again = network()
    assert trained(again) == answers
    assert CachedGraph not in programs(again)


def embedding() -> nn.Model:
    return nn.Model(
        nn.Sequential(nn.Embedding(10, 8), nn.Dense(8), nn.ReLU(), nn.Flatten(), nn.Dense(4)),
        (nn.Input((3,), I32),), optimizer=nn.Adam(0.1), seed=2,
    )  # fmt: skip


def test_an_index_outside_its_axis_leaves_weights_as_they_are() -> None:
    tokens = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    targets = np.array([0, 3], np.int32)
    first = embedding()
    answer = first.train_on_batch(tokens, targets), first.train_on_batch(tokens, targets)
    second = embedding()
    assert second.train_on_batch(tokens, targets) == answer[0]
    assert isinstance(second.training_step(2).program, CachedGraph)
    before = [value.copied() for value in second.tensors().values()]
    told = []
    for model in (second, first):
        with pytest.raises(IndexRangeError) as error:
            model.train_on_batch(np.array([[1, 2, 30], [4, 5, 6]], np.int32), targets)
        told.append(str(error.value))
    assert told[0] == told[1]
    for value, now in zip(before, second.tensors().values(), strict=True):
        np.testing.assert_array_equal(value, now.copied())
    # Nothing was written, so training goes on.
    assert second.train_on_batch(tokens, targets) == answer[1]


def test_bad_input_is_told_as_before() -> None:
    network().train_on_batch(X, Y)
    model = network()
    model.train_on_batch(X, Y)
    program = model.training_step(16).program
    assert isinstance(program, CachedGraph)
    step = model.training_step(16)
    with pytest.raises(ShapeError, match="from shape"):
        step.views(X[:3], Y)
    with pytest.raises(SymbolError, match="no value for"):
        program.views([], step.results)
    (planned,) = model._programs.kept.values()
    symbols = [*planned.given.values()]
    tensor = Tensor.zeros(symbols[0].spec)
    with pytest.raises(ShapeError):
        program.rebind({symbols[1]: Tensor.zeros(TensorSpec((1,), F32))})
    with pytest.raises(SymbolError, match="rebind"):
        program.rebind({step.results[0]: tensor})
    alike = [symbol for symbol in symbols if symbol.spec == symbols[0].spec]
    if len(alike) > 1:
        with pytest.raises(UsageError, match="in one memory"):
            program.rebind(dict.fromkeys(alike[:2], tensor))


def test_who_looks_at_commands_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = trained(network())
    model = network()
    with nnc.profile() as profile:
        assert trained(model) == answers
    assert "gemm" in str(profile.tables()).lower()
    kept = network()
    kept.train_on_batch(X, Y)
    with nnc.profile() as profile:
        kept.train_on_batch(X, Y)
    assert "gemm" in str(profile.tables()).lower()
    monkeypatch.setattr(SETTINGS, "debug", True)
    kept.train_on_batch(X, Y)
    monkeypatch.setattr(SETTINGS, "debug", False)
    assert kept.train_on_batch(X, Y) == _fourth()


def _fourth() -> tuple[float, float]:
    model = network()
    return [model.train_on_batch(X, Y) for _ in range(4)][-1]


def test_threads_share_a_kept_program() -> None:
    wanted = network().predict(X).tobytes()
    model, answers = network(), list[bytes]()

    def ask() -> None:
        answers.append(model.predict(X).tobytes())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [wanted] * 8


def test_generation_takes_its_steps_from_the_disk() -> None:
    def written() -> tuple[list[int], list[type]]:
        model = nn.Model(nn.zoo.GPT(17, 32, 16, 2, 2), (nn.UpTo(32),), input_dtype=I32, seed=1)
        return nn.generate(model, [1, 2, 3], 5), programs(model)

    first, second = written(), written()
    assert first[0] == second[0]
    assert (first[1], second[1]) == ([Compiled] * 2, [CachedGraph] * 2)


SCRIPT = """
import sys
import numpy as np
from nnc import nn
from nnc.nn.steps.step_graph import TracedStep
def refuse(_): raise AssertionError("it is planned")
if sys.argv[1] == "kept": TracedStep.drafted = refuse
layers = nn.Dense(24), nn.Tanh(), nn.Dense(24), nn.Tanh(), nn.Dense(4)
model = nn.Model(nn.Sequential(*layers), (12,), optimizer=nn.Adam(0.01), seed=3)
x = np.random.default_rng(0).standard_normal((16, 12)).astype(np.float32)
print([model.train_on_batch(x, np.arange(16, dtype=np.int32) % 4) for _ in range(3)])
"""


def processes(cache: Path, *, kept: bool, count: int = 1, **settings: str) -> list[str]:
    """What so many processes at once answer."""
    environment = {**os.environ, "NNC_CACHE_DIR": str(cache), **settings}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, "kept" if kept else ""]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    answers = [each.communicate() for each in running]
    assert [each.returncode for each in running] == [0] * count, answers
    return [answer for answer, _ in answers]


@pytest.mark.nightly("ONNX files do the same in every run")
def test_processes_share_programs_whether_they_come_at_once_or_behind_each_other(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second = processes(cache, kept=False, count=2)
    assert first == second
    if not entries(cache):
        pytest.skip("sources were written while the processes read them")
    assert len(entries(cache)) == 1
    assert processes(cache, kept=True) == [first]
    # A processor without what this one has: other kernels, other plans. It is measured again while that was disturbed.
    older = {answer for _ in range(MOST_TIMES) for answer in processes(cache, kept=False, NNC_LLVM_CPU="x86-64-v2")}
    assert len(older) == 1
    assert len(entries(cache)) >= 2
    assert processes(cache, kept=True, NNC_LLVM_CPU="x86-64-v2") == [*older]
    for entry in (cache / "programs", cache / "objects"):
        entry.chmod(0o500)
    assert processes(cache, kept=True) == [first]
