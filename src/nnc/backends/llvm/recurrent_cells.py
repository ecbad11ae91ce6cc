"""The cells of recurrent networks on vectors of units: what one step makes of its matrix product.

The formulas are those of `nnc.ops.recurrent`. A cell is a row of `CELLS`; its function is called for one vector of
units of one row of the batch at one step, and reads and writes the operands there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnc.backends.llvm.builder import ADDRESS, Builder, Scalar, Type, Value
from nnc.backends.llvm.mathematics import sigmoid, tanh


@dataclass(frozen=True, slots=True)
class Place:
    """Units [unit, unit + lanes) of row `row` at step `moment`.

    `earlier` is the step before in time, unless this is the `first` one; `begins` tells that no step was computed yet.
    """

    b: Builder
    operands: Mapping[str, Value]
    kind: Type
    sizes: tuple[int, int]
    moment: Value
    earlier: Value
    first: Value
    begins: Value
    row: Value
    unit: Value
    mask: Value | None

    @property
    def scalar(self) -> Scalar:
        """The element type."""
        return self.kind.scalar

    def _index(self, moment: Value, part: int, parts: int) -> Value:
        batch, units = self.sizes
        return (moment * batch + self.row) * (parts * units) + (self.unit + part * units)

    def read(self, name: str, part: int = 0, parts: int = 1) -> Value:
        """One of the equal parts of a sequence's rows, at this step."""
        return self.b.load(self.operands[name], self._index(self.moment, part, parts), self.kind, self.mask)

    def write(self, value: Value, name: str, part: int = 0, parts: int = 1) -> None:
        """Write what `read` reads."""
        self.b.store(value, self.operands[name], self._index(self.moment, part, parts), self.mask)

    def write_all(self, name: str, values: Sequence[Value]) -> None:
        """All parts of a sequence's rows, at this step."""
        for part, value in enumerate(values):
            self.write(value, name, part, len(values))

    def state(self, name: str) -> Value:
        """A state [batch, units]."""
        return self.b.load(self.operands[name], self._state_index(), self.kind, self.mask)

    def keep(self, value: Value, name: str) -> None:
        """Write what `state` reads."""
        self.b.store(value, self.operands[name], self._state_index(), self.mask)

    def carried(self, name: str) -> Value:
        """What the step computed before kept in `name`; zero at the beginning."""
        none = self.b.splat(self.begins, self.kind.lanes)
        return self.b.choose(none, self.b.zero(self.kind), self.state(name))

    def before(self, sequence: str, start: str) -> Value:
        """The sequence at the step before in time, `start` at the first one."""
        b = self.b
        place = b.offset(self.operands[sequence], self._index(self.earlier, 0, 1), self.scalar)
        other = b.offset(self.operands[start], self._state_index(), self.scalar)
        assert place.type == other.type == ADDRESS
        return b.load(b.choose(self.first, other, place), 0, self.kind, self.mask)

    def parameter(self, name: str, part: int) -> Value:
        """A parameter [parts · units], zero where it is absent."""
        if name not in self.operands:
            return self.b.zero(self.kind)
        return self.b.load(self.operands[name], self.unit + part * self.sizes[1], self.kind, self.mask)

    def _state_index(self) -> Value:
        return self.row * self.sizes[1] + self.unit


def _through_sigmoid(g: Value, y: Value) -> Value:
    return g * (y * (1.0 - y))


def _through_tanh(g: Value, y: Value) -> Value:
    return g * (1.0 - y * y)


def _lstm(p: Place, sums: Sequence[Value]) -> None:
    i, f, g, o = (total + p.read("z", part, 4) for part, total in enumerate(sums))
    i, f, g, o = sigmoid(p.b, i), sigmoid(p.b, f), tanh(p.b, g), sigmoid(p.b, o)
    c = f * p.before("cells", "c") + i * g
    p.write(o * tanh(p.b, c), "y")
    p.write(c, "cells")
    p.write_all("gates", (i, f, g, o))


def _lstm_gradient(p: Place, sums: Sequence[Value]) -> None:
    i, f, g, o = (p.read("gates", part, 4) for part in range(4))
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
    p.keep(by_c * f, "by_c")


def _gru(p: Place, sums: Sequence[Value]) -> None:
    m = [total + p.parameter("bias", part) for part, total in enumerate(sums)]
    r, s = (sigmoid(p.b, p.read("z", part, 3) + m[part]) for part in range(2))
    n = tanh(p.b, p.read("z", 2, 3) + r * m[2])
    p.write((1.0 - s) * n + s * p.before("y", "h"), "y")
    p.write_all("gates", (r, s, n, m[2]))


def _gru_gradient(p: Place, sums: Sequence[Value]) -> None:
    r, s, n, m = (p.read("gates", part, 4) for part in range(4))
    by_h = p.carried("by_h") + sums[0] + p.read("g")
    by_n = _through_tanh(by_h * (1.0 - s), n)
    by_r = _through_sigmoid(by_n * m, r)
    by_s = _through_sigmoid(by_h * (p.before("y", "h") - n), s)
    p.write_all("by_z", (by_r, by_s, by_n))
    p.write_all("by_m", (by_r, by_s, by_n * r))
    p.keep(by_h * s, "by_h")


def _rnn_tanh(p: Place, sums: Sequence[Value]) -> None:
    p.write(tanh(p.b, sums[0] + p.read("z")), "y")


def _rnn_relu(p: Place, sums: Sequence[Value]) -> None:
    total = sums[0] + p.read("z")
    p.write(p.b.maximum(total, 0.0), "y")


def _rnn_tanh_gradient(p: Place, sums: Sequence[Value]) -> None:
    p.write(_through_tanh(sums[0] + p.read("g"), p.read("y")), "by_z")


def _rnn_relu_gradient(p: Place, sums: Sequence[Value]) -> None:
    above = p.b.compare(">", p.read("y"), 0.0)
    slope = p.b.choose(above, p.b.constant(1.0, p.kind), 0.0)
    p.write((sums[0] + p.read("g")) * slope, "by_z")


@dataclass(frozen=True, slots=True)
class Cell:
    """Operands by name, inputs first; the parts of u's columns; what is multiplied by u or its transpose; the step.

    Forward, `left` is the sequence of states, which starts with the operand h. Backward, it is a gradient, and after
    the last step one more product is added to, or becomes, the operand by_h; `carries` tells which.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gates: int
    left: str
    step: Callable[[Place, Sequence[Value]], None]
    backward: bool = False
    carries: bool = False


_RNN, _RNN_BACK = (("z", "u", "h"), ("y",), 1, "y"), (("g", "y", "u"), ("by_z", "by_h"), 1, "by_z")
CELLS: dict[str, Cell] = {
    "lstm": Cell(("z", "u", "h", "c"), ("y", "cells", "gates"), 4, "y", _lstm),
    "lstm_gradient": Cell(
        ("g", "g_cells", "gates", "cells", "u", "c"), ("by_z", "by_h", "by_c"), 4, "by_z", _lstm_gradient, backward=True
    ),
    "gru": Cell(("z", "u", "h", "bias"), ("y", "gates"), 3, "y", _gru),
    "gru_gradient": Cell(
        ("g", "gates", "y", "u", "h"), ("by_z", "by_m", "by_h"), 3, "by_m", _gru_gradient, backward=True, carries=True
    ),
    "rnn_tanh": Cell(*_RNN, _rnn_tanh),
    "rnn_relu": Cell(*_RNN, _rnn_relu),
    "rnn_tanh_gradient": Cell(*_RNN_BACK, _rnn_tanh_gradient, backward=True),
    "rnn_relu_gradient": Cell(*_RNN_BACK, _rnn_relu_gradient, backward=True),
}
