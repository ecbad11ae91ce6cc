"""Transforms of the symbolic graph, one file each: valid graph in, valid graph out."""

from nnc.symbolic.passes.groups import fuse
from nnc.symbolic.passes.prune import prune
from nnc.symbolic.passes.simplify import Pass, Report, simplify
from nnc.symbolic.passes.subexpressions import eliminate_common

__all__ = ["Pass", "Report", "eliminate_common", "fuse", "prune", "simplify"]
