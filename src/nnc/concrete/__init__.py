"""L2: graphs of commands on real tensors, and how they run."""

from nnc.concrete.graph import ConcreteGraph, Dependency, Exec, ExecKey

__all__ = ["ConcreteGraph", "Dependency", "Exec", "ExecKey"]
