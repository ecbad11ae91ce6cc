"""L4: variables on real tensors; what is executed is recorded as a symbolic graph, which gives the gradients."""

from nnc.dynamic.alive import AliveMemory, AliveTensor, memory
from nnc.dynamic.execution.memoization import ResultCache
from nnc.dynamic.graph import DynamicGraph
from nnc.dynamic.variable import Variable

__all__ = ["AliveMemory", "AliveTensor", "DynamicGraph", "ResultCache", "Variable", "memory"]
