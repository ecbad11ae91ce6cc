"""From a symbolic graph to a program with a known amount of memory.

inplace    which output may take over the memory of which input
needs      what execs touch, and the bytes alive at each step of an order
window     the best order of a short stretch of execs
order      which exec comes when (anti-dependencies of updates included), chosen for a low peak
liveness   from when to when each tensor holds a value somebody needs, and who takes over whose memory
memory     blocks → nnc.planning → offsets, checked by the independent verifier; the statement
lower      tensors over one arena, a concrete graph that runs
"""

from nnc.symbolic.compile.lower import Compiled, compile
from nnc.symbolic.compile.memory import MemoryStatement

__all__ = ["Compiled", "MemoryStatement", "compile"]
