"""What a program takes: the statement that users read before a run, and limits on it. Needs no graph and no plan."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Self

from nnc.arguments import Size, checked
from nnc.classes import dataclass
from nnc.core.byte_counts import bytes_in
from nnc.core.values.device import AnyDevice, device_of
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError

# Bytes of the objects of a program for each exec: graphs, plan, calls, code. And what the first program of a process
# brings with it: modules, what planning and compilers leave behind. As `benchmarks/memory.py --cases` finds them.
EXEC_BYTES = 20 << 10
START = 5 << 20
# The same of a program that is loaded from the disk, which has no graphs and which nobody planned in this process.
LOADED_EXEC_BYTES = 9 << 10
LOADED_START = 2 << 20
# What one piece of kernels that is compiled takes for a while (docs/design/0018), by the same command.
COMPILING = 4 << 20
# In debug mode: bytes in front of an arena and behind it that nobody may write, and what fills it.
GUARD = 64
POISON = 0xFF

ArenaLimit = Size | str | Mapping[AnyDevice, Size | str]


@dataclass(frozen=True, slots=True)
class DeviceBytes:
    """What a program takes of the memory of one device: its arena, what no plan of this order is below, and tensors.

    `bound` are those of the caller's, `inputs` and `outputs` those in the arena that come from outside and that are
    there behind the run.
    """

    arena: int
    lower_bound: int
    bound: int
    inputs: int
    outputs: int

    @property
    def optimal(self) -> bool:
        """Whether the arena is as small as any plan of this order."""
        return self.arena == self.lower_bound


@dataclass(frozen=True, slots=True)
class MemoryStatement:
    """Bytes of a compiled graph, known before anything is allocated.

    `arena` holds activations, gradients on the way, workspace, inputs and outputs; `lower_bound` is what any
    plan of this order needs, where nothing is computed again, and `optimal` says that the arena is no larger; other
    orders may need less, but none of these execs less than `any_order_bound`, whatever shares memory, waits elsewhere
    or is computed again: what the largest of them has in memory while it runs. Segments of recurrent layers are other
    execs. `without_reuse` is what one buffer per tensor would take. `bound` counts the tensors that live outside:
    weights, optimizer state and scalars. On several `streams` what runs side by side shares no bytes: `one_stream` is
    the arena of the same order on one.

    `inputs` and `outputs` are those tensors in the arena that come from outside and that are there behind the run;
    `arenas` are the parts of the arena by kind of memory, with what lies in files beside it (`file:0`), and `devices`
    more of each (`on`). `copies_saved` are the
    inputs of concatenations that are computed in their places, `copied_bytes_saved` their bytes. `peak_tensors` hold
    most of the bytes at the peak, largest first, with the lines that made them.

    Beside what the plan says, `program` is about what the objects of the program take, code among them, `start` what
    comes with the first program of a process, and `scratch` what all workers keep for themselves, whatever program they
    run. `beside` is what who made the graph keeps besides, or took more than a run on the way: of an ONNX model its
    file, other stages, and weights that were folded. `mapped` bytes of bound tensors are those of a file, which all
    processes share that map it; they are in no `process`.
    """

    arena: int
    lower_bound: int
    without_reuse: int
    workspace: int
    bound: int
    optimal: bool
    peak_step: int
    peak_tensors: tuple[str, ...]
    streams: int = 1
    one_stream: int = 0
    inputs: int = 0
    outputs: int = 0
    arenas: Mapping[str, int] = field(default_factory=dict, hash=False)
    copies_saved: int = 0
    copied_bytes_saved: int = 0
    program: int = 0
    scratch: int = 0
    beside: int = 0
    devices: Mapping[str, DeviceBytes] = field(default_factory=dict, hash=False)
    any_order_bound: int = 0
    start: int = START
    mapped: int = 0

    def over(self, tensors: Iterable[Tensor | None]) -> Self:
        """Of the same program over bound tensors that it only reads, of which some may be mapped."""
        mapped = sum(t.spec.nbytes for t in tensors if t is not None and t.storage.file is not None)
        return replace(self, mapped=mapped) if mapped != self.mapped else self

    def as_loaded(self) -> Self:
        """Of the same program, loaded from the disk: fewer objects, and nothing that planning leaves behind."""
        program = self.program // EXEC_BYTES * LOADED_EXEC_BYTES
        return replace(self, program=program, start=LOADED_START)

    @checked
    def on(self, device: AnyDevice) -> DeviceBytes:
        """The bytes on one device: zeros where the program has none there."""
        return self.devices.get(str(device_of(device)), DeviceBytes(0, 0, 0, 0, 0))

    @property
    def process(self) -> int:
        """About what a process takes that runs this alone, imports and inputs of the caller's left out.

        arena + bound tensors + results handed out + program + scratch of workers + beside + compiling
        + what nnc takes to start - mapped
        """
        own = self.bound - self.mapped
        return self.running + self.compiling + own + self.program + self.beside + self.start

    @property
    def running(self) -> int:
        """What is there for the first time when it runs: arena + results handed out + scratch of workers."""
        return self.arena + self.outputs + self.scratch

    @property
    def compiling(self) -> int:
        """By how much compiling kernels that are not on the disk takes more than the run behind it does.

        max(0, 4 MB - running): kernels are compiled in pieces, whose memory is given back before the arena is there.
        """
        return max(0, COMPILING - self.running)

    @property
    def making(self) -> int:
        """About what making the program leaves behind: its objects, and what nnc takes to start."""
        return self.program + self.start

    def __str__(self) -> str:
        share = self.arena / self.without_reuse if self.without_reuse else 1.0
        return (
            f"arena {self.arena} B (lower bound {self.lower_bound} B, in any order {self.any_order_bound} B, "
            f"without reuse {self.without_reuse} B, {share:.0%}), workspace {self.workspace} B, "
            f"bound tensors {self.bound} B{self._mapped()}{self._price()}{self._places()}; "
            f"peak at step {self.peak_step}: " + ", ".join(self.peak_tensors)
        )

    def _mapped(self) -> str:
        """How many of the bound bytes other processes may share."""
        return f" ({self.mapped} B of them mapped)" if self.mapped else ""

    def _places(self) -> str:
        """The arenas, where there is one outside of host memory."""
        if all(device_of(memory).is_host for memory in self.arenas):
            return ""
        return "; " + ", ".join(f"{memory}: {nbytes} B" for memory, nbytes in sorted(self.arenas.items()))

    def _price(self) -> str:
        """What running side by side costs."""
        if self.streams == 1:
            return ""
        return f", {self.streams} streams (on one: arena {self.one_stream} B)"


def in_memory(arenas: Mapping[str, int]) -> int:
    """Bytes of arenas of all kinds, those in files left out."""
    return sum(nbytes for kind, nbytes in arenas.items() if not device_of(kind).is_file)


def checked_limit(limit: int | str) -> int:
    """The bytes of a limit, a number or a text as `2GB`; UsageError for what is no number of bytes."""
    if isinstance(limit, str):
        try:
            return bytes_in(limit)
        except UsageError:
            need = "bytes, an integer ≥ 0 or a text as 1.5GiB"
            raise UsageError("memory_limit", got=repr(limit), need=need) from None
    try:
        nbytes = operator.index(limit)
    except TypeError:
        nbytes = -1
    if nbytes < 0 or isinstance(limit, bool):
        raise UsageError("memory_limit", got=f"{limit!r}", need="bytes, an integer ≥ 0", fix="round it down with int()")
    return nbytes
