"""Loops and branches: commands whose attributes hold graphs.

    while:     (initial values…, invariants…) -> (count at the exit, values at the exit and rows of all iterations…)
    case..of:  (choice…, operands…) -> what the chosen branch gives

    with while_loop(graph, CountBelow(5)) as loop:
        x = loop.carry(x0)
        y = tanh(x)
        loop.next(x, y * weight)        # weight belongs to the graph around: an invariant
    a, b = loop.result(x), loop.result(y)

    y, = case_of(graph, index, [double, square], [x], bypass=[x])

A loop breaks at its test, and the test may stand anywhere in the body: what the test and the results read runs before
it, once more than the rest. So `result(x)` is x after five iterations, with nothing in front of the test, and
`result(y)` has tanh in front of it, run six times. With the next value of x as a result it is a `do … while`.

A command is a plain value, so passes, plans and gradients treat loops and branches like every other operator.
"""

from nnc.symbolic.control.branches import CASE_OF, case_of
from nnc.symbolic.control.commands import CONTROL_REGISTRY, CaseAttrs, Holds, Kept, PythonCondition, Test, WhileAttrs
from nnc.symbolic.control.loops import WHILE, Loop, while_loop

__all__ = [
    "CASE_OF",
    "CONTROL_REGISTRY",
    "CaseAttrs",
    "Holds",
    "Kept",
    "Loop",
    "PythonCondition",
    "Test",
    "WHILE",
    "WhileAttrs",
    "case_of",
    "while_loop",
]
