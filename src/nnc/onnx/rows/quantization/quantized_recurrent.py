"""LSTM whose weights are bytes: z = (q(x) · w) · scales + (q(h) · r) · scales + biases, x and h quantized as they come.

x of all steps has one scale, h of each step one of its own, as in onnxruntime on one thread; it quantizes h row by row
where it splits the batch.
"""

from __future__ import annotations

from collections.abc import Callable

from nnc import ops
from nnc.core.values.dtype import I8, I32, U8
from nnc.errors import DTypeError, ShapeError
from nnc.onnx.node import NodeCall, OnnxRow, Operand, Results
from nnc.onnx.rows.quantization.quantization import filled, is_zero, scalar
from nnc.onnx.rows.sequence.recurrent import Direction, check_shapes, layer, lstm_step, row_of, stepwise
from nnc.onnx.rows.sequence.transformers import DOMAIN

# Places of the scale and the zero point of w and of r.
INPUT_SCALE, STATE_SCALE = 8, 10


class _ByteProducts:
    """Products of bytes, of all gates together."""

    def __init__(self, part: Direction, x: Operand) -> None:
        self.part = part
        self.sums = self._product(x, part.w, INPUT_SCALE)

    def of_input(self, place: int) -> Callable[[int], Operand]:
        """x[place] · w of a gate."""
        return self._gates(row_of(self.sums, place))

    def of_state(self, h: Operand) -> Callable[[int], Operand]:
        """h · r of a gate."""
        return self._gates(self._product(h, self.part.r, STATE_SCALE))

    def _gates(self, z: Operand) -> Callable[[int], Operand]:
        units = self.part.units
        return lambda gate: ops.slice_axis(z, z.spec.rank - 1, gate * units, (gate + 1) * units)

    def _product(self, x: Operand, weights: Operand, place: int) -> Operand:
        call, number = self.part.call, self.part.number
        a, scale, zero = ops.dynamic_quantize(x)
        known = call.maybe(place + 1) is None or is_zero(call, place + 1)
        own = None if known else row_of(call[place + 1], number)
        sums = ops.integer_product(a, weights, zero, own)
        return ops.dequantize(sums, scale * scalar(row_of(call[place], number)), filled(sums, 0, I32))


def _check_scales(call: NodeCall) -> None:
    """One scale and one zero point for each direction, or for each of its columns; weights and zeros of bytes."""
    for place, weights, name in ((INPUT_SCALE, 1, "w"), (STATE_SCALE, 2, "r")):
        matrix, zero = call[weights], call.maybe(place + 1)
        if matrix.spec.dtype not in (I8, U8):
            raise DTypeError(
                call.node.label, got=f"{name}={matrix.spec}", need="weights of bytes", fix="LSTM has others"
            )
        shapes = (matrix.shape[:1], (matrix.shape[0], matrix.shape[2]))
        for what, given in (("scale", call[place]), ("zero_point", zero)):
            if given is not None and given.shape not in shapes:
                need = " or ".join(str(list(shape)) for shape in shapes)
                raise ShapeError(call.node.label, got=f"{name}_{what}={given.spec}", need=need)


def _lstm(call: NodeCall) -> Results:
    check_shapes(call, 4, 2, turned=True)
    _check_scales(call)

    def cell(part: Direction, x: Operand) -> tuple[Operand, ...]:
        return stepwise(part, x, 4, lstm_step(part), products=_ByteProducts(part, x))

    return layer(call, 4, 2, cell, turned=True)


ROWS = {f"{DOMAIN}.DynamicQuantizeLSTM": OnnxRow(_lstm)}
