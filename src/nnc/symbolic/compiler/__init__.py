"""From a symbolic graph to a program with a known amount of memory.

inplace    which output may take over the memory of which input
needs      what execs touch, and the bytes alive at each step of an order
window     the best order of a short stretch of execs
order      which exec comes when (anti-dependencies of updates included), chosen for a low peak
liveness   from when to when each tensor holds a value somebody needs, and who takes over whose memory
memory     blocks → nnc.planning → offsets, checked by the independent verifier; the statement
replay     a program whose values are let go of and computed again; the bytes alive then
program    execs as such a program
recompute  what to compute again: ever lower peaks
repeat     execs that run again, written into a copy of the graph
budget     a limit on memory, met by the above
rooms      the memory that carried values of a loop take turns in
bodies     loops and branches, planned before the graph around them
build      a planned graph as a concrete one
compiled   what runs: tensors over one arena, a concrete graph
lower      from what a caller asks to that
"""

from nnc.symbolic.compiler.budget import Budget
from nnc.symbolic.compiler.compiled import Compiled
from nnc.symbolic.compiler.lower import compile
from nnc.symbolic.compiler.memory import MemoryStatement

__all__ = ["Budget", "Compiled", "MemoryStatement", "compile"]
