"""The cells of recurrent networks on vectors of units: what one step makes of its matrix product.

The formulas are those of `nnc.ops.sequence.recurrent`. A cell is a row of `CELLS`; its function is called for some
units of some rows of the batch at one step, and reads the operands there before it writes any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Value
from nnc.codegen.ir.mathematics import sigmoid, tanh
from nnc.codegen.kernels.sequence.recurrent_place import Place


def _through_sigmoid(g: Value, y: Value) -> Value:
    return g * (y * (1.0 - y))


def _through_tanh(g: Value, y: Value) -> Value:
    return g * (1.0 - y * y)


def _lstm(p: Place, sums: Sequence[Value]) -> None:
    i, f, g, o = (total + p.read("z", part) for part, total in enumerate(sums))
    i, f, g, o = sigmoid(p.b, i), sigmoid(p.b, f), tanh(p.b, g), sigmoid(p.b, o)
    c = f * p.before("cells", "c") + i * g
    p.write(o * tanh(p.b, c), "y")
    p.write(c, "cells")
    p.write_all("gates", (i, f, g, o))


def _lstm_gradient(p: Place, sums: Sequence[Value]) -> None:
    i, f, g, o = (p.read("gates", part) for part in range(4))
    bent = tanh(p.b, p.read("cells"))
    by_h = sums[0] + p.read("g")
    by_c = p.carried("by_c") + p.read("g_cells") + _through_tanh(by_h * o, bent)
    by_f = by_c * p.before("cells", "c")
    p.write_all(
        "by_z",
        (
            _through_sigmoid(by_c * g, i),
            _through_sigmoid(by_f, f),
            _through_tanh(by_c * i, g),
            _through_sigmoid(by_h * bent, o),
        ),
    )
    p.write(by_c * f, "by_c")


def _gru(p: Place, sums: Sequence[Value]) -> None:
    m = [total + p.parameter("bias", part) for part, total in enumerate(sums)]
    r, s = (sigmoid(p.b, p.read("z", part) + m[part]) for part in range(2))
    n = tanh(p.b, p.read("z", 2) + r * m[2])
    p.write((1.0 - s) * n + s * p.before("y", "h"), "y")
    p.write_all("gates", (r, s, n, m[2]))


def _gru_gradient(p: Place, sums: Sequence[Value]) -> None:
    r, s, n, m = (p.read("gates", part) for part in range(4))
    by_h = p.carried("by_h") + sums[0] + p.read("g")
    by_n = _through_tanh(by_h * (1.0 - s), n)
    by_r = _through_sigmoid(by_n * m, r)
    by_s = _through_sigmoid(by_h * (p.before("y", "h") - n), s)
    p.write_all("by_z", (by_r, by_s, by_n))
    p.write_all("by_m", (by_r, by_s, by_n * r))
    p.write(by_h * s, "by_h")


def _rnn_tanh(p: Place, sums: Sequence[Value]) -> None:
    p.write(tanh(p.b, sums[0] + p.read("z")), "y")


def _rnn_relu(p: Place, sums: Sequence[Value]) -> None:
    total = sums[0] + p.read("z")
    p.write(p.b.choose(p.b.compare("<", total, 0.0), p.b.constant(0.0, p.kind), total), "y")


def _rnn_tanh_gradient(p: Place, sums: Sequence[Value]) -> None:
    p.write(_through_tanh(sums[0] + p.read("g"), p.read("y")), "by_z")


def _rnn_relu_gradient(p: Place, sums: Sequence[Value]) -> None:
    above = p.b.compare(">", p.read("y"), 0.0)
    slope = p.b.choose(above, p.b.constant(1.0, p.kind), 0.0)
    p.write((sums[0] + p.read("g")) * slope, "by_z")


@dataclass(frozen=True, slots=True)
class Cell:
    """Operands by name, inputs first; the parts of the rows of each sequence, and of u's columns; the step.

    Forward, `left` is the sequence of states that is multiplied by u, and `starts` tells from which state each sequence
    starts that a step reads of the step before. Backward, `left` is a gradient that is multiplied by the transpose of
    u; after the last step one more product is added to, or becomes, the operand by_h. `states` are what one step leaves
    to the next besides.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parts: Mapping[str, int]
    gates: int
    left: str
    step: Callable[[Place, Sequence[Value]], None]
    starts: Mapping[str, str] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    backward: bool = False

    @property
    def recurring(self) -> tuple[str, ...]:
        """What a step reads of what the step before it wrote."""
        return (self.left, *self.states) if self.backward else tuple(self.starts)


def _rnn(step: Callable[[Place, Sequence[Value]], None]) -> Cell:
    return Cell(("z", "u", "h"), ("y",), {"z": 1, "y": 1}, 1, "y", step, {"y": "h"})


def _rnn_gradient(step: Callable[[Place, Sequence[Value]], None]) -> Cell:
    parts = {"g": 1, "y": 1, "by_z": 1}
    return Cell(("g", "y", "u"), ("by_z", "by_h"), parts, 1, "by_z", step, backward=True)


CELLS: dict[str, Cell] = {
    "lstm": Cell(
        ("z", "u", "h", "c"),
        ("y", "cells", "gates"),
        {"z": 4, "y": 1, "cells": 1, "gates": 4},
        4,
        "y",
        _lstm,
        {"y": "h", "cells": "c"},
    ),
    "lstm_gradient": Cell(
        ("g", "g_cells", "gates", "cells", "u", "c"),
        ("by_z", "by_h", "by_c"),
        {"g": 1, "g_cells": 1, "gates": 4, "cells": 1, "by_z": 4},
        4,
        "by_z",
        _lstm_gradient,
        states=("by_c",),
        backward=True,
    ),
    "gru": Cell(("z", "u", "h", "bias"), ("y", "gates"), {"z": 3, "y": 1, "gates": 4}, 3, "y", _gru, {"y": "h"}),
    "gru_gradient": Cell(
        ("g", "gates", "y", "u", "h"),
        ("by_z", "by_m", "by_h"),
        {"g": 1, "gates": 4, "y": 1, "by_z": 3, "by_m": 3},
        3,
        "by_m",
        _gru_gradient,
        states=("by_h",),
        backward=True,
    ),
    "rnn_tanh": _rnn(_rnn_tanh),
    "rnn_relu": _rnn(_rnn_relu),
    "rnn_tanh_gradient": _rnn_gradient(_rnn_tanh_gradient),
    "rnn_relu_gradient": _rnn_gradient(_rnn_relu_gradient),
}
