"""The steps of a native program: phases of launches in order, branches among them, and the barriers between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc.backends.llvm.run.branches import Task, stretches
from nnc.classes import dataclass
from nnc.codegen.ir.native_kernel import AddressRange, NativeKernel

# A step that one worker finishes in this many nanoseconds is not worth waking or waiting for others.
SERIAL_NANOSECONDS = 4000.0
# More phases than this of one kernel are not looked at for branches: each meets the one before it.
FEW_PHASES = 8
EVERYBODY, FIRST = -1, 0
WINDOW = 64

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with the addresses it runs on; `reads` and `writes` are the memory it touches, workspace included.

    The first `operands` of the addresses are of memory; what is behind them are words of the kernel's own.
    """

    kernel: NativeKernel
    addresses: tuple[int, ...]
    reads: tuple[AddressRange, ...]
    writes: tuple[AddressRange, ...]
    operands: int = 0


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One phase of a launch, or branches: what the interpreter's table holds, and what it touches."""

    function: int
    table: int
    items: int
    first: int
    task: Task

    @property
    def owner(self) -> int:
        """Who runs it."""
        return FIRST if self.task.alone else EVERYBODY


def steps_of(launch: Launch, table: int) -> list[ProgramStep]:
    """The steps of a launch whose array of addresses begins at `table`."""
    kernel = launch.kernel
    in_turn = len(kernel.phases) > FEW_PHASES
    return [
        ProgramStep(
            address,
            table,
            phase.items,
            phase.first,
            Task(launch.reads, launch.writes, phase.cost, phase.cost < SERIAL_NANOSECONDS, in_turn),
        )
        for phase, address in zip(kernel.phases, kernel.addresses, strict=True)
        if phase.items > 0
    ]


def with_branches(steps: Sequence[ProgramStep], function: int, workers: int) -> tuple[list[ProgramStep], list[Words]]:
    """The steps with branches in the place of those that they run, and the tables of the branches.

    `function` is the interpreter's. A table has the address of each share, which is the number of its steps and of each
    the function, the addresses and the items.
    """
    rewritten: list[ProgramStep] = []
    tables: list[Words] = []
    for stretch in stretches([step.task for step in steps], workers):
        inside = steps[stretch.first : stretch.last]
        if not stretch.shares:
            rewritten += inside
            continue
        shares = [[steps[index] for index in share] for share in stretch.shares]
        rows = [
            [len(share), *(word for step in share for word in (step.function, step.table, step.items, step.first))]
            for share in shares
        ]
        starts = [len(rows) + sum(map(len, rows[:index])) for index in range(len(rows))]
        table = np.array([*starts, *(word for row in rows for word in row)], dtype=np.int64)
        address = int(table.ctypes.data)
        table[: len(rows)] = [address + table.itemsize * start for start in starts]
        tables.append(table)
        reads = tuple(span for step in inside for span in step.task.reads)
        writes = tuple(span for step in inside for span in step.task.writes)
        cost = sum(step.task.cost for step in inside)
        rewritten.append(ProgramStep(function, address, len(shares), 0, Task(reads, writes, cost, alone=False)))
    return rewritten, tables


def barriers(steps: Sequence[ProgramStep]) -> list[bool]:
    """barrier[i]: all workers must meet before step i."""
    barriers = []
    shared: list[Task] = []
    owned: list[Task] = []
    for step in steps:
        rivals = shared if step.owner == FIRST else [*shared, *owned]
        needed = len(shared) >= WINDOW or any(rival.meets(step.task) for rival in rivals)
        if needed:
            shared, owned = [], []
        (owned if step.owner == FIRST else shared).append(step.task)
        barriers.append(needed)
    return barriers
