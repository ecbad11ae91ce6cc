"""The words that native programs share with Python: the control block of workers, tables of steps, and names.

`interpreter` writes the code that reads them, and is imported only where that is not on the disk.
"""

from __future__ import annotations

# Slots of the control block, in i64; what many workers write has a cache line of its own.
RETIRED, STEPS, COUNT, WORKERS, STOP, SCRATCH, STRIDE, WORDS, RUN = 0, 8, 9, 10, 11, 12, 13, 14, 15
PLACES, PROCESSORS = 16, 17
TICKETS, TICKET_SLOTS, SLEEPING, THREAD, BOUND = 24, 8, 1, 2, 3
# Of a worker that is profiled: seconds and nanoseconds of its last look, time computed, first look.
CLOCKED, BUSY, BEGUN = 4, 6, 7
MASK_SLOTS = 16
READ_MASK, WRITE_MASK = "sched_getaffinity", "sched_setaffinity"
MOST_PROCESSORS = 64 * MASK_SLOTS
STEP_SLOTS = 6  # function, arguments, items, barrier, owner, first item
WORD_SLOTS = 2  # run and chunks left; run-wide number of chunks to wait for, or -1
MAX_WORKERS = 32
HALF = 32
LOW_HALF, LAST_RUN = 2**HALF - 1, 2 ** (HALF - 1) - 1
SPINS, IDLE_SPINS = 1000, 4000  # pauses before others may run, and before an idle worker sleeps
FUTEX_WAIT, FUTEX_WAKE = 128, 129  # the private variants
FUTEX_CALL = {"x86_64": 202, "aarch64": 98}
PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
# The function of loops (`loop_code`), and those of programs.
LOOP = "nnc_loop"
WALK, LAUNCH, RELEASE, WORK, BRANCHES = "nnc_walk", "nnc_launch", "nnc_release", "nnc_work", "nnc_branches"
ALONE = "nnc_alone"
BRANCH_SLOTS = 4  # function, arguments, items, first item


def control_slots(workers: int) -> int:
    """i64 slots of a control block."""
    return TICKETS + TICKET_SLOTS * workers
