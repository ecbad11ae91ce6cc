"""Symbolic graphs as text that people read and that parses back.

    graph net
      %0 x: f32[4, 3] = input
      %1 w: f32[3, 2] = input
      %2: f32[4, 2] = gemm <- %0, %1, –  # train.py:7
      %3 top: f32[2, 2] = part of %2 at 0 by [2, 1]
      %4: f32[2, 2] = affine(scale=2.0) as doubled <- %3
      %5: i64[], %6: f32[2, 2] = while(carried=1, count=1, test={"is": "CountBelow", …}, kept=[…]) <- %4
        body (%0) -> (%2)
          %0: f32[2, 2] = input
          %1 count: i64[] = input
          %2: f32[2, 2] = tanh <- %0

Symbols are numbered as they appear; those without a name that no exec names are left out. Execs stand in topological
order. A root that execs write only in parts is `memory`, and each part has a line of its own. `holding 0.0` is what a
root's places hold that no exec writes. An exec that passes leave alone is `kept`; `after 0, 2` are the execs, counted
from 0, that it was told to follow. Attributes are those that differ from their defaults, as JSON; specs and steps of
fused expressions as text. The comment behind a line is its origin.

Bodies stand below the exec as blocks: parameters, results, lines. Their symbols have numbers of their own, which the
attributes of the exec use too.
"""

from nnc.symbolic.text.graphviz import dot
from nnc.symbolic.text.reader import parse
from nnc.symbolic.text.writer import dump

__all__ = ["dot", "dump", "parse"]
