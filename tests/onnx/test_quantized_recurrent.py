"""LSTMs whose weights are bytes beside onnxruntime, and shapes of recurrent operands that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx.test_contributed import Arrays, made, real, seven, whole

from nnc.errors import DTypeError, ShapeError
from nnc.onnx import load

STEPS, BATCH, INPUTS, UNITS = 4, 3, 6, 5
LENGTHS = np.array([4, 2, 3], np.int32)
TWICE: dict[str, Any] = {"direction": "bidirectional"}


def operands(
    *, directions: int = 1, columns: bool = False, kind: type[np.generic] = np.int8, zero: int | None = None,
    states: bool = False, peepholes: bool = False, lengths: NDArray[np.int32] | None = None, batch: int = BATCH,
) -> Arrays:  # fmt: skip
    """Those of the operator, in its order."""
    first: Arrays = [real(directions, batch, UNITS), real(directions, batch, UNITS)] if states else [None, None]
    shape = (directions, 4 * UNITS) if columns else (directions,)
    point = None if zero is None else np.full(shape, zero, kind)
    sizes = [(directions, rows, 4 * UNITS) for rows in (INPUTS, UNITS)]
    weights = [seven(*size) if kind is np.int8 else whole(kind, *size) for size in sizes]
    scales = [np.abs(real(*shape)) * np.float32(0.01) + np.float32(0.002) for _ in range(2)]
    return [
        real(STEPS, batch, INPUTS), *weights, real(directions, 8 * UNITS), lengths, *first,
        real(directions, 3 * UNITS) if peepholes else None, scales[0], point, scales[1], point,
    ]  # fmt: skip


CASES: dict[str, tuple[Arrays, dict[str, Any]]] = {
    "one direction": (operands(zero=3), {}),
    "backwards": (operands(zero=0), {"direction": "reverse"}),
    "two directions, a scale per column": (operands(directions=2, columns=True, zero=0), TWICE),
    "unsigned": (operands(kind=np.uint8, zero=128), {}),
    "unsigned, a scale per column": (operands(columns=True, kind=np.uint8, zero=128), {}),
    "peepholes and states": (operands(directions=2, zero=1, peepholes=True, states=True), TWICE),
    "clipped": (operands(zero=0, peepholes=True, states=True), {"clip": 0.5}),
    "a forget gate that follows the input": (operands(zero=0), {"input_forget": 1}),
    "sequences of several lengths": (operands(zero=0, lengths=LENGTHS), {}),
    "other activations": (operands(zero=0), {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
    "one example": (operands(zero=0, batch=1, states=True), {}),
}


def feeds_of(model: Any, given: Arrays) -> dict[str, NDArray[Any]]:
    return {one.name: np.asarray(given[int(one.name[1:])]) for one in model.graph.input}


def run(given: Arrays, fixed: int, backend: str = "", **more: Any) -> list[NDArray[Any]]:
    model = made("DynamicQuantizeLSTM", given, results="y0 y1 y2", fixed=fixed, **more)
    return [np.asarray(one) for one in load(model, backend=backend).run(feeds_of(model, given)).values()]


@pytest.mark.parametrize(("backend", "fixed"), [("", 1), ("", 99), ("reference", 1)])
@pytest.mark.parametrize("name", CASES)
def test_it_gives_what_onnxruntime_gives(name: str, backend: str, fixed: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    given, attributes = CASES[name]
    attributes = {**attributes, "hidden_size": UNITS}
    options = onnxruntime.SessionOptions()
    # More threads quantize states row by row.
    options.intra_op_num_threads = 1
    model = made("DynamicQuantizeLSTM", given, results="y0 y1 y2", fixed=fixed, **attributes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds_of(model, given))
    # Which rows a state's scale is of differs where some have ended: one step in 255 of each product.
    far = 2e-6 if given[4] is None else 0.02
    for one, want in zip(run(given, fixed, backend, **attributes), wanted, strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=far)


def test_weights_without_zero_points_are_those_of_zero() -> None:
    given = operands(zero=0)
    without = [None if place in (9, 11) else one for place, one in enumerate(given)]
    for one, want in zip(run(without, 1), run(given, 1), strict=True):
        np.testing.assert_array_equal(one, want)


WRONG: dict[str, tuple[int, NDArray[Any], type[Exception]]] = {
    "x of two axes": (0, real(STEPS, INPUTS), ShapeError),
    "x of other features": (0, real(STEPS, BATCH, INPUTS + 1), ShapeError),
    "w of two axes": (1, whole(np.int8, INPUTS, 4 * UNITS), ShapeError),
    "w that is not turned": (1, whole(np.int8, 1, 4 * UNITS, INPUTS), ShapeError),
    "w of real numbers": (1, real(1, INPUTS, 4 * UNITS), DTypeError),
    "r of two axes": (2, whole(np.int8, UNITS, 4 * UNITS), ShapeError),
    "r of two directions": (2, whole(np.int8, 2, UNITS, 4 * UNITS), ShapeError),
    "biases of one axis": (3, real(8 * UNITS), ShapeError),
    "one length too few": (4, LENGTHS[:2], ShapeError),
    "a state of two axes": (5, real(BATCH, UNITS), ShapeError),
    "a cell of another batch": (6, real(1, BATCH + 1, UNITS), ShapeError),
    "peepholes of one axis": (7, real(3 * UNITS), ShapeError),
    "a scale without axes": (8, np.array(0.1, np.float32), ShapeError),
    "a scale per unit": (10, np.abs(real(1, UNITS)), ShapeError),
    "a zero point per row": (9, np.zeros((1, INPUTS), np.int8), ShapeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_of_other_shapes_are_refused(name: str) -> None:
    given = operands(zero=0, states=True, peepholes=True, lengths=LENGTHS)
    place, wrong, error = WRONG[name]
    given[place] = wrong
    with pytest.raises(error, match="DynamicQuantizeLSTM"):
        run(given, 4, hidden_size=UNITS)


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_so_are_those_of_the_standard_s_cells(operator: str, gates: int) -> None:
    right: Arrays = [real(STEPS, BATCH, INPUTS), real(1, gates * UNITS, INPUTS), real(1, gates * UNITS, UNITS),
                     real(1, 2 * gates * UNITS), None, real(1, BATCH, UNITS)]  # fmt: skip
    results = "y0 y1 y2" if operator == "LSTM" else "y0 y1"
    for place in (0, 1, 2, 3, 5):
        given = [None if one is None else one[0] if number == place else one for number, one in enumerate(right)]
        model = made(operator, given, results=results, domain="", hidden_size=UNITS)
        with pytest.raises(ShapeError, match=operator):
            load(model).run(feeds_of(model, given))
