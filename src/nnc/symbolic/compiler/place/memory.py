"""The memory plan of a compilation, checked, and the statement that users read before a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.device import AnyDevice, device_of
from nnc.core.values.storage import ALIGNMENT
from nnc.errors import MemoryLimitError, VerificationError
from nnc.planning import Block, Interference, Plan, Problem, faults, lower_bound, solve
from nnc.symbolic.compiler.place.liveness import LiveRange
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey

# How often the planner's searches put a block somewhere: two seconds, and a tenth of one where many plans are compared.
PLACES = 100_000
PLACES_OF_A_TRIAL = 5_000
# Bytes of the objects of a program for each exec: graphs, plan, calls, code. And what the first program of a process
# brings with it: modules, what planning and compilers leave behind. As `benchmarks/memory.py --cases` finds them.
EXEC_BYTES = 14 << 10
START = 5 << 20
# What one piece of kernels that is compiled takes for a while (docs/design/0018), by the same command.
COMPILING = 4 << 20


@dataclass(slots=True)
class BlockSpan:
    """A block from one moment to another: as a block of this graph, the workspace of this exec if it is one.

    `step` is that of the graph whose plan is made, for a block of a body inside of it.
    """

    life: LiveRange
    lower: int
    upper: int
    name: str
    graph: SymbolicGraph
    exec: ExecKey | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class ArenaLayout:
    """Where each block lies: `plan.offsets[i]` for `spans[i]`, which the planner knows as `problem.blocks[i]`.

    That is in the arena of the block's kind of memory. `starts` are the
    moments at which the steps of the graph begin.
    """

    spans: tuple[BlockSpan, ...]
    problem: Problem
    plan: Plan
    starts: tuple[int, ...] = ()

    @property
    def blocks(self) -> tuple[LiveRange, ...]:
        """The blocks."""
        return tuple(span.life for span in self.spans)

    def step(self) -> int:
        """The step of the peak."""
        return self.step_of(self.plan.witness.step)

    def step_of(self, moment: int) -> int:
        """The step that is running at a moment."""
        return bisect_right(self.starts, moment) - 1 if self.starts else moment

    def placed(self) -> tuple[tuple[LiveRange, int], ...]:
        """Each block with its offset from the beginning of the arena of its kind of memory."""
        return tuple((span.life, offset) for span, offset in zip(self.spans, self.plan.offsets, strict=True))


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
    orders may need less. `without_reuse` is what one buffer per tensor would take. `bound` counts the
    tensors that live outside: weights, optimizer state and scalars. On several `streams` what runs side by side shares
    no bytes: `one_stream` is the arena of the same order on one.

    `inputs` and `outputs` are those tensors in the arena that come from outside and that are there behind the run;
    `arenas` are the parts of the arena by kind of memory, and `devices` more of each (`on`). `copies_saved` are the
    inputs of concatenations that are computed in their places, `copied_bytes_saved` their bytes. `peak_tensors` hold
    most of the bytes at the peak, largest first, with the lines that made them.

    Beside what the plan says, `program` is about what the objects of the program take, code among them, and `scratch`
    what all workers keep for themselves, whatever program they run. `beside` is what who made the graph keeps besides,
    or took more than a run on the way: of an ONNX model its file, other stages, and weights that were folded.
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

    @checked
    def on(self, device: AnyDevice) -> DeviceBytes:
        """The bytes on one device: zeros where the program has none there."""
        return self.devices.get(str(device_of(device)), DeviceBytes(0, 0, 0, 0, 0))

    @property
    def process(self) -> int:
        """About what a process takes that runs this alone, imports and inputs of the caller's left out.

        arena + bound tensors + results handed out + program + scratch of workers + beside + compiling
        + what nnc takes to start
        """
        return self.running + self.compiling + self.bound + self.program + self.beside + START

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
        return self.program + START

    def __str__(self) -> str:
        share = self.arena / self.without_reuse if self.without_reuse else 1.0
        return (
            f"arena {self.arena} B (lower bound {self.lower_bound} B, "
            f"without reuse {self.without_reuse} B, {share:.0%}), workspace {self.workspace} B, "
            f"bound tensors {self.bound} B{self._price()}{self._places()}; "
            f"peak at step {self.peak_step}: " + ", ".join(self.peak_tensors)
        )

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


def lay_out(
    spans: Sequence[BlockSpan],
    interference: Callable[[Sequence[BlockSpan]], Interference] | None = None,
    capacity: int | None = None,
    places: int = PLACES,
    starts: tuple[int, ...] = (),
) -> ArenaLayout:
    """Plan the blocks; VerificationError when the independent check finds a fault in the solver's plan.

    Spans say which blocks may share bytes, unless an `interference` graph of them does. A plan within the
    `capacity`, in bytes, is good enough; MemoryLimitError when none is found.
    """
    problem = Problem(
        tuple(
            Block(span.name, span.life.nbytes, span.lower, span.upper, ALIGNMENT, memory=span.life.memory)
            for span in spans
        ),
        None if interference is None else interference(spans),
    )
    if capacity is not None and (bound := lower_bound(problem)) > capacity:
        raise MemoryLimitError("plan", got=f"blocks of {bound} bytes at the peak", need=f"at most {capacity} bytes")
    plan = solve(problem, capacity=capacity, places=places)
    if broken := faults(problem, plan):
        raise VerificationError("memory plan: " + "; ".join(broken))
    return ArenaLayout(tuple(spans), problem, plan, starts)


NOTHING = lay_out(())


def block_name(life: LiveRange, graph: SymbolicGraph, user: ExecKey | None) -> str:
    """The first tensor of a block, or whose workspace it is, as texts show it."""
    return graph.label(life.roots[0]) if user is None else f"workspace of {graph.execs[user].title}"
