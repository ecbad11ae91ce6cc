"""Where the time goes: what runs between two moments, by run, layer and operator, on any thread.

    with profile() as p:
        model.fit(…)
    print(p)                     share of the time, waits of workers, share of what the machine can do
    p.trace("run.json")          for Perfetto and chrome://tracing

While somebody profiles, each kernel is a program of its own, so that its time is known: results are the same bit by
bit, and a run takes a little longer. The peak is that of fused multiply-adds on registers on all workers, measured.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from os import PathLike
from pathlib import Path

import numpy as np

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.replacement import write_atomically
from nnc.core.running.dispatch import DISPATCHER, TracedBackend
from nnc.core.settings import SETTINGS
from nnc.core.values.recorder import PROFILER, Allocated, KernelTime, Record, RunTime, now
from nnc.planning import PageTable, TimelineBar, page_of_views
from nnc.planning.page import plain

SHOWN = 12


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """What all kernels of one layer or operator took; `waited` is what workers waited in them, in seconds.

    `share` is their rate of operations over that of the machine's peak.
    """

    name: str
    calls: int
    seconds: float
    waited: float
    work: int
    share: float


@dataclass(slots=True)
class RunProfile:
    """Everything that was noted; it may be read while it grows."""

    records: list[Record] = field(default_factory=list)
    begin: int = 0
    end: int = 0

    @property
    def kernels(self) -> list[KernelTime]:
        """The kernels in the order of their ends."""
        return [record for record in self.records if isinstance(record, KernelTime)]

    @property
    def runs(self) -> list[RunTime]:
        """The runs of whole graphs, such as steps of training."""
        return [record for record in self.records if isinstance(record, RunTime)]

    @property
    def allocations(self) -> list[Allocated]:
        """Fresh memory that was asked of the system."""
        return [record for record in self.records if isinstance(record, Allocated)]

    @property
    def seconds(self) -> float:
        """From the beginning to the end."""
        return ((self.end or now()) - self.begin) * 1e-9

    def by_layer(self) -> list[ProfileRow]:
        """A row for each layer path, the longest first; what is outside of layers is one."""
        return self._rows(layer_of)

    def by_operator(self) -> list[ProfileRow]:
        """A row for each operator, the longest first."""
        return self._rows(lambda kernel: kernel.operator)

    def _rows(self, key: Callable[[KernelTime], str]) -> list[ProfileRow]:
        parts: dict[str, list[KernelTime]] = {}
        for kernel in self.kernels:
            parts.setdefault(key(kernel), []).append(kernel)
        rows = [_row(name, kernels) for name, kernels in parts.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    def __str__(self) -> str:
        kernels, runs = self.kernels, self.runs
        busy = sum(kernel.end - kernel.begin for kernel in kernels) * 1e-9
        nbytes = sum(allocation.nbytes for allocation in self.allocations)
        usual = float(np.median([(run.end - run.begin) * 1e-6 for run in runs])) if runs else 0.0
        head = (
            f"{self.seconds:.3f} s, {len(runs)} runs of {usual:.3f} ms, {len(kernels)} kernels {busy:.3f} s, "
            f"{len(self.allocations)} allocations {nbytes:,} B"
        )
        return "\n".join((head, *_table("layer", self.by_layer()), *_table("operator", self.by_operator())))

    def chrome_trace(self) -> str:
        """The records in Chrome's trace format: a lane per thread, and one per worker in its kernels."""
        events: list[dict[str, object]] = []

        def add(name: str, kind: str, lane: int, begin: int, end: int, **facts: object) -> None:
            place = {"ph": "X", "pid": 1, "tid": lane, "ts": (begin - self.begin) / 1e3, "dur": (end - begin) / 1e3}
            events.append({"name": name, "cat": kind, **place, "args": facts})

        lanes = self.lanes()
        for record in self.records:
            match record:
                case KernelTime():
                    layer = plain(layer_of(record))
                    add(record.operator, "kernel", lanes[record.thread], record.begin, record.end,
                        layer=layer, line=record.origin, backend=record.backend, operations=record.work)  # fmt: skip
                    for each in record.workers:
                        facts = {"layer": layer, "busy_us": each.busy / 1e3}
                        add(record.operator, "worker", len(lanes) + each.worker, each.begin, each.end, **facts)
                case RunTime():
                    add(plain(record.name) or "run", "run", lanes[record.thread], record.begin, record.end)
                case Allocated():
                    args = {"bytes": record.nbytes, "label": plain(record.label)}
                    place = {"ph": "i", "s": "p", "pid": 1, "tid": 0, "ts": (record.moment - self.begin) / 1e3}
                    events.append({"name": "allocation", "cat": "memory", **place, "args": args})
        workers = {each.worker for record in self.kernels for each in record.workers}
        names = {number: f"thread {number}" for number in lanes.values()}
        names |= {len(lanes) + worker: f"worker {worker}" for worker in sorted(workers)}
        named = [
            {"ph": "M", "pid": 1, "tid": lane, "name": "thread_name", "args": {"name": name}}
            for lane, name in names.items()
        ]
        return json.dumps({"traceEvents": named + events, "displayTimeUnit": "ms"})

    def bars(self, moments: Mapping[tuple[str, str], Sequence[int]] | None = None) -> list[TimelineBar]:
        """Kernels in the lanes of their threads and workers; `moments` of those of a name and operator, in order."""
        turns, bars, lanes = Counter[tuple[str, str]](), [], self.lanes()
        for kernel in self.kernels:
            key = kernel.name, kernel.operator
            places = () if moments is None else moments.get(key, ())
            moment = places[turns[key] % len(places)] if places else -1
            turns[key] += 1
            text = " · ".join(part for part in (layer_of(kernel), kernel.operator) if part)
            parts = [(f"thread {lanes[kernel.thread]}", kernel.begin, kernel.end)]
            parts += [(f"worker {each.worker}", each.begin, each.end) for each in kernel.workers]
            bars += [
                TimelineBar(lane, (begin - self.begin) / 1e3, (end - begin) / 1e3, text, moment)
                for lane, begin, end in parts
            ]
        return bars

    def tables(self) -> list[PageTable]:
        """The rows of layers and operators as a page shows them."""
        columns = ("", "calls", "milliseconds", "waits of workers", "of the machine's peak")
        return [
            PageTable(title, columns, [
                (row.name or "(no layer)", f"{row.calls:,}", f"{row.seconds * 1e3:.3f}", f"{row.waited * 1e3:.3f}",
                 f"{row.share:.1%}")
                for row in rows
            ])
            for title, rows in (("Time by layer", self.by_layer()), ("Time by operator", self.by_operator()))
        ]  # fmt: skip

    @checked
    def html(self, path: str | PathLike[str], title: str = "") -> None:
        """Write a page with the timeline and the tables; `Compiled.html(profile=…)` joins it with the memory map."""
        page = page_of_views(title, bars=self.bars(), tables=self.tables())
        write_atomically(Path(path), [page.encode()])

    def lanes(self) -> Mapping[int, int]:
        """Threads, numbered in the order in which they were first seen."""
        threads = dict.fromkeys(record.thread for record in self.records if not isinstance(record, Allocated))
        return {thread: number for number, thread in enumerate(threads)}

    @checked
    def trace(self, path: str | PathLike[str]) -> None:
        """Write `chrome_trace()` to a file."""
        write_atomically(Path(path), [self.chrome_trace().encode()])


@contextmanager
def profile() -> Iterator[RunProfile]:
    """Inside, everything that runs in this process is noted, on all threads; may be nested."""
    recorded = RunProfile(begin=now())
    PROFILER.add(recorded.records)
    try:
        yield recorded
    finally:
        PROFILER.remove(recorded.records)
        recorded.end = now()


def layer_of(kernel: KernelTime) -> str:
    """`encoder.block1` of `encoder.block1.tanh`."""
    return kernel.name.rpartition(".")[0]


@cache
def machine_peak(workers: int = 1) -> float:
    """Floating-point operations per second of so many workers, all at once, measured once; 0 where no backend knows."""
    backends = (backend for backend in DISPATCHER.backends.values() if isinstance(backend, TracedBackend))
    return max((backend.peak(workers) for backend in backends if not backend.absence()), default=0.0)


def _row(name: str, kernels: list[KernelTime]) -> ProfileRow:
    seconds = sum(kernel.end - kernel.begin for kernel in kernels) * 1e-9
    work = sum(kernel.work for kernel in kernels)
    waited = sum(kernel.end - kernel.begin - each.busy for kernel in kernels for each in kernel.workers) * 1e-9
    most = machine_peak(SETTINGS.worker_count()) * seconds
    return ProfileRow(name, len(kernels), seconds, max(waited, 0.0), work, work / most if most else 0.0)


def _table(what: str, rows: list[ProfileRow]) -> Iterator[str]:
    total = sum(row.seconds for row in rows) or 1.0
    yield f"\n{what:40} {'calls':>8} {'ms':>10} {'time':>6} {'waits ms':>9} {'of peak':>8}"
    for row in rows[:SHOWN]:
        share, seconds = row.seconds / total, row.seconds * 1e3
        name = plain(row.name[-40:]) or "(no layer)"
        yield (f"{name:40} {row.calls:>8,} {seconds:>10.3f} {share:>6.1%} {row.waited * 1e3:>9.3f} {row.share:>8.1%}")
    if len(rows) > SHOWN:
        yield f"{len(rows) - SHOWN} more"
