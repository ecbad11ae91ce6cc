"""From a symbolic graph to a program with a known amount of memory.

order/    which exec comes when
  inplace        which output may take over the memory of which input
  uses           what execs touch, and the bytes alive at each step of an order
  window         the best order of a short stretch of execs
  choose         an order of a low peak (anti-dependencies of updates included)
  shuffle        that order, rearranged at random
  least          the least that any order needs, exactly, also where execs run again
  known          orders of the same graph at other sizes
place/    where each value lies
  liveness       from when to when each tensor holds a value somebody needs, and who takes over whose memory
  concatenation  inputs of concatenations computed in their places
  slots          the memory that carried values of a loop take turns in
  concurrency    what runs side by side shares no bytes
  memory         blocks → nnc.planning → offsets, checked by the independent verifier
  memory_statement  what a program takes, as users read it, and limits on it
  scratch        what kernels have for themselves
  planned        a graph with all that is fixed before memory exists
  timeline       when blocks of bodies live among those of the graph around
  pipeline       one plan for tops, branches and loops, with the layout as the judge
repeat/   what runs again
  schedule       a program whose values are let go of and computed again; the bytes alive then
  program        execs as such a program
  recompute      what to compute again: ever lower peaks (edit, chain: how they are found)
  cheap          the same of cheap execs alone, as a pass
  write          execs that run again, written into a copy of the graph
  budget         a limit on memory, met by the above
  limits         limits of all arenas, and of each device
check/    reads in a plan, and writes of a run in debug mode
build     a planned graph as a concrete one
shared_arena  the memory that programs take turns in, and what all of them take
compiled  what runs: tensors over one arena, a concrete graph
proofs    below which no order of a small graph can be (order/least: the searches)
moving    the same over other tensors at each run
lower     from what a caller asks to that
"""

from typing import TYPE_CHECKING

from nnc.faces import face, homes

if TYPE_CHECKING:
    from nnc.symbolic.compiler.compiled import Compiled
    from nnc.symbolic.compiler.lower import compile
    from nnc.symbolic.compiler.moving import MovingProgram
    from nnc.symbolic.compiler.order.known import KnownOrders
    from nnc.symbolic.compiler.place.memory_statement import ArenaLimit, MemoryStatement
    from nnc.symbolic.compiler.proofs import LeastMemory, least_memory
    from nnc.symbolic.compiler.repeat.budget import Budget
    from nnc.symbolic.compiler.shared_arena import Arena, ArenaMember, ArenaMemory, arena, trim_after

__all__ = [
    "Arena",
    "ArenaLimit",
    "ArenaMember",
    "ArenaMemory",
    "Budget",
    "Compiled",
    "KnownOrders",
    "LeastMemory",
    "MemoryStatement",
    "MovingProgram",
    "arena",
    "compile",
    "least_memory",
    "trim_after",
]

# Modules are imported when a name of theirs is first used: a program from the disk needs few of them.
_HOMES = homes(
    {
        "nnc.symbolic.compiler.body_tests": "body_tests",
        "nnc.symbolic.compiler.build": "build",
        "nnc.symbolic.compiler.check": "check",
        "nnc.symbolic.compiler.compiled": "Compiled compiled",
        "nnc.symbolic.compiler.loop_places": "loop_places",
        "nnc.symbolic.compiler.lower": "compile lower",
        "nnc.symbolic.compiler.moving": "MovingProgram moving",
        "nnc.symbolic.compiler.moving_operand": "moving_operand",
        "nnc.symbolic.compiler.order": "order",
        "nnc.symbolic.compiler.order.known": "KnownOrders",
        "nnc.symbolic.compiler.place": "place",
        "nnc.symbolic.compiler.place.memory_statement": "MemoryStatement ArenaLimit",
        "nnc.symbolic.compiler.proofs": "LeastMemory least_memory proofs",
        "nnc.symbolic.compiler.repeat": "repeat",
        "nnc.symbolic.compiler.repeat.budget": "Budget",
        "nnc.symbolic.compiler.shared_arena": "Arena ArenaMember ArenaMemory arena trim_after shared_arena",
        "nnc.symbolic.compiler.stored_programs": "stored_programs",
        "nnc.symbolic.compiler.views": "views",
    }
)

if not TYPE_CHECKING:
    # A type checker reads the imports above instead.
    __getattr__, __dir__ = face(_HOMES, globals())
