"""Autotune: the fastest claim wins, on copies, once; the cache on disk survives anything."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from tests.concrete.eager import ADDITION, affine, elements, number, rooms, tensor

from nnc.concrete import Carry, ConcreteGraph, CountBelow, Phi, Reference, Taped, TuneCache, TuneOptions, tune
from nnc.concrete.autotune import checked_tuning, copy_all, is_faster
from nnc.concrete.choices import FILE_NAME, FORMAT_VERSION, MeasuredChoice, cache_in, cache_key, versions
from nnc.core.running.dispatch import Call, Dispatcher, Program, Specs, Tensors
from nnc.core.running.processor import processor_name
from nnc.core.running.stream import Stream
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Blocked, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError, MemoryLimitError, UsageError
from nnc.symbolic.sharing.program_disk import _tuned


class Watch:
    """A clock that only work moves; `delay` is what the last program takes from the next one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.delay = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True, eq=False)
class SlowKernel:
    """y = seconds, after so many on the watch, and those by which the program before delays it."""

    backend: SlowBackend
    seconds: float

    @property
    def workspace_bytes(self) -> int:
        return self.backend.workspace

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        self.backend.seen.append(tuple(tensor.address for tensor in (*inputs, *outputs) if tensor is not None))
        self.backend.threads.add(threading.get_ident())
        self.backend.watch.now += self.seconds + self.backend.watch.delay
        self.backend.watch.delay = self.backend.delays
        if self.backend.broken:
            raise UsageError(self.backend.name, got="trouble")
        for output in outputs:
            assert output is not None
            output.numpy()[...] = self.seconds


@dataclass(slots=True, eq=False)
class SlowBackend:
    """A backend as fast as it is told."""

    name: str
    watch: Watch
    seconds: float
    workspace: int = 0
    refuses: bool = False
    broken: bool = False
    delays: float = 0.0
    others: dict[str, float] = field(default_factory=dict)
    seen: list[tuple[int, ...]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def absence(self) -> str:
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        return "never" if self.refuses else ""

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> SlowKernel:
        return SlowKernel(self, self.seconds)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> dict[str, SlowKernel]:
        return {name: SlowKernel(self, seconds) for name, seconds in self.others.items()}

    def program(self, calls: Sequence[Call]) -> Program:
        def run() -> None:
            for call in calls:
                call.kernel.run(call.inputs, call.outputs, call.workspace)

        return run


@dataclass(slots=True, eq=False)
class Bench:
    """Three backends: slow is preferred, fast is best, sly is fastest but wants memory."""

    watch: Watch = field(default_factory=Watch)
    dispatcher: Dispatcher = field(default_factory=Dispatcher)
    backends: dict[str, SlowBackend] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, seconds, workspace in (("slow", 3.0, 0), ("fast", 2.0, 0), ("sly", 1.0, 1000)):
            self.backends[name] = SlowBackend(name, self.watch, seconds, workspace)
            self.dispatcher.add(self.backends[name])

    def options(
        self, folder: Path | None = None, limit: int | None = None, stream: Stream | None = None
    ) -> TuneOptions:
        return TuneOptions(limit, stream, 2, self.watch, TuneCache(folder))

    @property
    def measured(self) -> int:
        return sum(len(backend.seen) for backend in self.backends.values())

    def winner(self, options: TuneOptions, command: AnyCommand | None = None) -> str:
        x, y = tensor([1.0]), tensor([7.0])
        claim = tune(command or affine(2.0), (x,), (y,), self.dispatcher, options)
        assert number(y) == 7.0
        return str(claim)

    def winners(self, options: TuneOptions, *commands: AnyCommand) -> None:
        for command in commands:
            assert self.winner(options, command) == "sly"


@pytest.mark.parametrize(("limit", "expected"), [(None, "sly"), (1000, "sly"), (999, "fast"), (0, "fast")])
def test_the_fastest_within_the_limit_wins(limit: int | None, expected: str) -> None:
    bench = Bench()
    assert bench.winner(bench.options(limit=limit)) == expected


def test_variants_are_candidates() -> None:
    bench = Bench()
    bench.backends["slow"].others = {"wide": 0.5, "deep": 0.75}
    assert bench.winner(bench.options()) == "slow:wide"
    root, x = ConcreteGraph(bench.dispatcher), tensor([1.0])
    root.add(affine(2.0), [x], [x])
    assert str(root).endswith("on slow")
    assert root.autotune(bench.options()) == 1
    assert str(root).endswith("on slow:wide")
    root.run()
    assert number(x) == 0.5


def test_what_delays_the_program_behind_it_costs_that_too() -> None:
    bench = Bench()
    bench.backends["sly"].delays = 2.5
    assert bench.winner(bench.options()) == "fast"


def test_a_hopeless_claim_runs_once() -> None:
    bench = Bench()
    bench.backends["fast"].seconds = 100.0
    assert bench.winner(bench.options()) == "sly"
    assert len(bench.backends["fast"].seen) == 1
    bench.backends["slow"].seconds = 100.0
    assert bench.winner(bench.options()) == "sly"
    assert len(bench.backends["sly"].seen) == 1 + 2 + 1


def test_a_limit_that_nobody_meets() -> None:
    bench = Bench()
    for backend in bench.backends.values():
        backend.workspace = 50
    with pytest.raises(MemoryLimitError, match="at least 50 bytes"):
        bench.winner(bench.options(limit=49))


def test_refusals_and_failures_are_no_candidates() -> None:
    bench = Bench()
    bench.backends["sly"].refuses = True
    bench.backends["fast"].broken = True
    assert bench.winner(bench.options()) == "slow"
    bench.backends["slow"].broken = True
    with pytest.raises(UsageError, match="trouble"):
        bench.winner(bench.options())
    for backend in bench.backends.values():
        backend.refuses = True
    with pytest.raises(BackendError, match="slow: never"):
        bench.winner(bench.options())


def test_a_single_claim_is_taken_without_a_measurement() -> None:
    bench = Bench()
    bench.backends["sly"].refuses = bench.backends["slow"].refuses = True
    assert bench.winner(bench.options()) == "fast"
    assert bench.measured == 0


def test_a_stream_is_drained_before_the_clock_is_read() -> None:
    """The clock moves on the stream's thread: were it read too early, all would take no time and the first win."""
    bench = Bench()
    with Stream() as stream:
        assert bench.winner(bench.options(stream=stream)) == "sly"
    assert all(threading.get_ident() not in backend.threads for backend in bench.backends.values())


def test_live_tensors_are_not_touched_and_identities_are_kept() -> None:
    bench = Bench()
    x = tensor([[1.0, 2.0, 3.0, 4.0]])
    part = x.view(spec([1, 2]), 1, (4, 1))
    other = tensor([[5.0, 6.0]])
    before = x.numpy().copy()
    tune(ADDITION, (part, other), (part,), bench.dispatcher, bench.options())
    np.testing.assert_array_equal(x.numpy(), before)
    for backend in bench.backends.values():
        for first, second, output in backend.seen:
            assert first == output != second
            assert part.address not in (first, second)


def test_copies_lie_as_the_originals_lie() -> None:
    whole = tensor(np.arange(12.0).reshape(3, 4))
    row = whole.view(spec([4]), 4, (1,))
    column = whole.view(spec([3]), 1, (4,))
    apart, empty = tensor([1.0]), Tensor.empty(spec([0, 3]))
    copies = copy_all((whole, row, None, column, apart, whole, empty))
    first, second, absent, third, alone, again, nothing = copies
    assert first is not None
    assert second is not None
    assert third is not None
    assert alone is not None
    assert nothing is not None
    assert absent is None
    assert again is first
    assert (second.address - first.address, third.address - first.address) == (16, 4)
    assert (whole.address - first.address) % 64 == 0
    assert nothing.shape == (0, 3)
    first.copy_from(2 * elements(whole))
    np.testing.assert_array_equal(second.numpy(), 2 * elements(row))
    np.testing.assert_array_equal(third.numpy(), 2 * elements(column))
    assert not alone.storage.address <= first.address < alone.storage.address + alone.storage.nbytes
    np.testing.assert_array_equal(whole.numpy(), np.arange(12.0).reshape(3, 4))


def test_winners_are_kept_in_memory_and_on_disk(tmp_path: Path) -> None:
    bench = Bench()
    options = bench.options(tmp_path / "deep" / "folder")
    bench.winner(options)
    once = bench.measured
    bench.winner(options)
    assert bench.measured == once
    again = Bench()
    assert again.winner(again.options(tmp_path / "deep" / "folder")) == "sly"
    assert again.measured == 0
    document = json.loads((tmp_path / "deep" / "folder" / FILE_NAME).read_text())
    assert document["version"] == FORMAT_VERSION
    ((key, row),) = document["entries"].items()
    assert row == ["sly", 4.0, versions()]
    assert processor_name() in key
    assert "affine AffineAttrs(scale=2.0, shift=0.0) | f32[1] f32[1]" in key


def test_a_winner_that_is_gone_is_measured_anew(tmp_path: Path) -> None:
    bench = Bench()
    bench.winner(bench.options(tmp_path))
    key = cache_key(affine(2.0), (tensor([1.0]),), (tensor([1.0]),), ("slow", "fast", "sly"))
    options = bench.options(tmp_path)
    assert options.cache.get(key) == MeasuredChoice("sly", 4.0, versions())
    options.cache.put(key, MeasuredChoice("gone", 0.5, versions()))
    assert bench.winner(options) == "sly"


def test_a_winner_of_other_versions_is_measured_anew_and_replaced(tmp_path: Path) -> None:
    bench = Bench()
    options = bench.options(tmp_path)
    key = cache_key(affine(2.0), (tensor([1.0]),), (tensor([1.0]),), ("slow", "fast", "sly"))
    options.cache.put(key, MeasuredChoice("slow", 0.5, "nnc-0.0"))
    options.cache.save()
    assert bench.winner(bench.options(tmp_path)) == "sly"
    entries = json.loads((tmp_path / FILE_NAME).read_text())["entries"]
    assert entries == {key: ["sly", 4.0, versions()]}


def test_other_names_and_other_layouts_are_other_keys() -> None:
    whole = tensor(np.zeros((2, 2)))
    apart = whole.view(spec([2]), 0, (2,))
    keys = {
        cache_key(affine(2.0), (x,), (x,), claims)
        for x in (apart, tensor([0.0, 0.0]))
        for claims in (("slow",), ("slow", "slow:wide"))
    }
    assert len(keys) == 4


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no json",
        "[]",
        '{"version": 2}',
        '{"version": 2, "entries": {"a": "sly"}}',
        '{"version": 2, "entries": {"a": ["sly", 1.0]}}',
        '{"version": 2, "entries": []}',
        "\x00\xff",
        "[" * 100_000,
    ],
)
def test_a_corrupted_file_is_ignored_once_and_rebuilt(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content.encode("latin-1"))
    bench = Bench()
    options = bench.options(tmp_path)
    with pytest.warns(RuntimeWarning, match="ignoring the autotune cache") as caught:
        bench.winners(options, affine(2.0), affine(3.0))
    assert len(caught) == 1
    again = Bench()
    again.winner(again.options(tmp_path))
    assert again.measured == 0


@pytest.mark.skipif(sys.platform == "win32", reason="has no pipes with names")
def test_a_pipe_and_a_device_are_no_files_of_ours(tmp_path: Path) -> None:
    """A run waited for ever for who would write into the pipe."""
    os.mkfifo(tmp_path / FILE_NAME)
    bench = Bench()
    with pytest.warns(RuntimeWarning, match="a pipe; need a readable file"):
        assert bench.winner(bench.options(tmp_path)) == "sly"
    assert _tuned(tmp_path) == ""
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).symlink_to("/dev/zero")
    with pytest.warns(RuntimeWarning, match="a device; need a readable file"):
        assert TuneCache(tmp_path).get("a") is None


def test_a_file_of_another_version_is_replaced_quietly(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({"version": FORMAT_VERSION + 1, "entries": {"a": "other"}}))
    bench = Bench()
    assert bench.winner(bench.options(tmp_path)) == "sly"
    assert json.loads((tmp_path / FILE_NAME).read_text())["version"] == FORMAT_VERSION


def test_what_others_write_meanwhile_is_kept(tmp_path: Path) -> None:
    one, two = TuneCache(tmp_path), TuneCache(tmp_path)
    assert one.get("a") is None
    one.put("a", MeasuredChoice("x", 1.0, versions()))
    two.put("b", MeasuredChoice("y", 2.0, versions()))
    one.save()
    two.save()
    two.save()
    assert TuneCache(tmp_path).get("a") == MeasuredChoice("x", 1.0, versions())
    assert TuneCache(tmp_path).get("b") == MeasuredChoice("y", 2.0, versions())
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench = Bench()
    options = bench.options(tmp_path / "file" / "folder")
    with pytest.warns(RuntimeWarning, match="ignoring the autotune cache") as caught:
        bench.winners(options, affine(2.0), affine(3.0))
    assert len(caught) == 1


def test_without_a_folder_nothing_is_written() -> None:
    bench = Bench()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = bench.options(None)
        assert bench.winner(options) == "sly"
    assert options.cache.path is None
    assert cache_in(None) is cache_in(None)


def test_a_whole_graph_is_tuned_inside_and_out() -> None:
    """Execs on tensors and on every kind of place, in bodies and branches; each command is measured once."""
    bench = Bench()
    root, body, branch = (ConcreteGraph(bench.dispatcher) for _ in range(3))
    x, y = tensor([1.0]), tensor([2.0])
    carried, moving = Carry(x), body.multiview(rooms(2, 1))
    phi = Phi(x, y)
    reference = Reference(x.spec)
    case = body.case_of(lambda: 0, outputs=[phi])
    for place in (x, carried, moving, phi, Taped(y)):
        body.add(affine(2.0), [place], [moving], after=[case])
    branch.add(affine(2.0), [x], [y])
    body.set_case(case, 0, branch)
    root.while_loop(body, CountBelow(2))
    key = root.add(affine(2.0), [x], [y], workspace=Tensor.empty(spec([1])))
    assert root.autotune(bench.options()) == 7
    # Each of three claims at first, and in each of two rounds between two runs of the preferred one.
    assert bench.measured == 3 + 2 * 3 * 3
    assert root.autotune(bench.options()) == 0
    record = root.execs[key]
    assert "sly" in str(root)
    assert getattr(record, "workspace", x) is None
    root.run()
    assert number(y) == 1.0
    unbound = ConcreteGraph(bench.dispatcher)
    unbound.add(affine(2.0), [reference], [y])
    with pytest.raises(UsageError, match="no source"):
        unbound.autotune(bench.options())


def test_the_default_options_use_the_settings() -> None:
    bench = Bench()
    for name in ("slow", "fast"):
        bench.backends[name].refuses = True
    root = ConcreteGraph(bench.dispatcher)
    root.add(affine(2.0), [tensor([1.0])], [tensor([1.0])])
    assert root.autotune() == 0
    default: Callable[[], TuneOptions] = TuneOptions
    assert default().cache is default().cache


def test_a_node_keeps_its_claim_when_none_runs() -> None:
    bench = Bench()
    root, x = ConcreteGraph(bench.dispatcher), tensor([1.0])
    root.add(affine(2.0), [x], [x])
    for backend in bench.backends.values():
        backend.broken = True
    assert root.autotune(bench.options()) == 0
    assert "on slow" in str(root)


def test_within_the_plan_no_kernel_wants_more_memory() -> None:
    bench = Bench()
    root, x = ConcreteGraph(bench.dispatcher), tensor([1.0])
    root.add(affine(2.0), [x], [x])
    assert root.autotune(replace(bench.options(), within_plan=True)) == 1
    assert "on fast" in str(root)
    with pytest.raises(MemoryLimitError):
        root.autotune(replace(bench.options(limit=-1), within_plan=True))


def test_the_backend_that_a_graph_prefers_is_kept_unless_another_is_clearly_faster() -> None:
    bench = Bench()
    bench.backends["fast"].seconds = bench.backends["slow"].seconds = 1.01
    graph, x = ConcreteGraph(bench.dispatcher, "fast"), tensor([1.0])
    graph.add(affine(2.0), [x], [x])
    assert graph.autotune(bench.options()) == 0
    assert "on fast" in str(graph)


def test_a_deterministic_graph_measures_nothing() -> None:
    bench = Bench()
    root, inner = ConcreteGraph(bench.dispatcher, deterministic=True), ConcreteGraph(bench.dispatcher)
    x = tensor([1.0])
    inner.add(affine(2.0), [x], [x])
    loop = root.while_loop(inner, CountBelow(1))
    for graph in (root, *root.subgraphs(loop)):
        with pytest.raises(UsageError, match="autotune: got a deterministic graph"):
            graph.autotune(bench.options())
    assert bench.measured == 0


def test_what_to_tune_by() -> None:
    options = Bench().options(limit=7)
    assert checked_tuning("compile", False, True) is checked_tuning("compile", False, False) is None
    assert checked_tuning("compile", options, False) == replace(options, within_plan=True)
    default = checked_tuning("compile", True, False)
    assert default is not None
    assert default.within_plan
    with pytest.raises(UsageError, match="compile: got autotune and deterministic; need one of them"):
        checked_tuning("compile", True, True)


def test_an_interrupt_while_choices_are_written_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = TuneCache(tmp_path)
    cache.put("key", MeasuredChoice("llvm", 1.0, versions()))
    read = TuneCache._read

    def press_and_read(self: TuneCache) -> dict[str, MeasuredChoice]:
        signal.raise_signal(signal.SIGINT)
        return read(self)

    with monkeypatch.context() as patch:
        patch.setattr(TuneCache, "_read", press_and_read)
        with pytest.raises(KeyboardInterrupt):
            cache.save()
    cache.save()
    assert TuneCache(tmp_path).get("key") == MeasuredChoice("llvm", 1.0, versions())


class PackingBackend(SlowBackend):
    """Operands in blocks take `others["blocks"]` seconds."""

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> SlowKernel:
        blocks = any(one is not None and one.plain is not one for one in inputs)
        return SlowKernel(self, self.others["blocks"] if blocks else self.seconds)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> dict[str, SlowKernel]:
        return {}


@pytest.mark.parametrize(("seconds", "faster"), [(1.0, True), (1.99, False), (3.0, False)])
def test_another_layout_has_to_be_clearly_faster_by_the_clock(seconds: float, faster: bool, tmp_path: Path) -> None:
    watch, dispatcher = Watch(), Dispatcher()
    backend = PackingBackend("packing", watch, 2.0, others={"blocks": seconds})
    dispatcher.add(backend)
    x, y = spec((4, 4)), (spec((4, 4)),)
    others = (x, x.laid(Blocked((4, 4), 1, 4)))
    options = TuneOptions(clock=watch, cache=TuneCache(tmp_path))
    assert is_faster(ADDITION, others, (x, x), y, dispatcher, "", options) is faster
    runs = len(backend.seen)
    # What was measured is kept, in the file too.
    for cache in (options.cache, TuneCache(tmp_path)):
        again = replace(options, cache=cache)
        assert is_faster(ADDITION, others, (x, x), y, dispatcher, "", again) is faster
    assert len(backend.seen) == runs
