"""Transforms of the symbolic graph, one file each: valid graph in, valid graph out."""

from nnc.symbolic.passes.prune import prune

__all__ = ["prune"]
