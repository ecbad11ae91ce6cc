"""From a symbolic graph to a program with a known amount of memory.

order      which exec comes when (anti-dependencies of updates included; lower peaks preferred)
liveness   from when to when each tensor holds a value somebody needs
inplace    which output takes over the memory of which input
memory     blocks → nnc.planning → offsets, checked by the independent verifier; the statement
lower      tensors over one arena, a concrete graph that runs
"""

from nnc.symbolic.compile.lower import Compiled, compile
from nnc.symbolic.compile.memory import MemoryStatement

__all__ = ["Compiled", "MemoryStatement", "compile"]
