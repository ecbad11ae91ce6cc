"""Recurrent cells over sequences of ragged sizes, both ways, against the steps of the reference in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, run, scalar_of

from nnc.backends.llvm.run.host import host_target
from nnc.backends.reference.sequence import recurrent as reference
from nnc.codegen.ir.builder import F32, Module
from nnc.codegen.kernels.sequence.recurrent import BLOCK_ROWS, CELL_ROWS, MOST_STEPS, Recurrent
from nnc.codegen.kernels.sequence.recurrent_cells import CELLS
from nnc.ops.sequence.recurrent import Activation, RecurrentAttrs, RnnAttrs

Steps = Callable[[Any, list[Array | None], list[Array]], None]

STATES = ("h", "c", "by_h", "by_c")
# Steps, batch, units: one vector or less, several panels with a rest, several blocks of rows with a rest, and a block
# whose steps are phases.
LONG = (4, CELL_ROWS, 610)
SIZES = [(1, 1, 1), (3, 5, 16), (4, 7, 37), (2, 2 * BLOCK_ROWS + 3, 70), LONG]


def shape(name: str, cell: str, sizes: tuple[int, int, int]) -> tuple[int, ...]:
    steps, batch, units = sizes
    gates = CELLS[cell].gates
    special = {"u": (units, gates * units), "bias": (gates * units,), **dict.fromkeys(STATES, (batch, units))}
    return special.get(name) or (steps, batch, CELLS[cell].parts[name] * units)


def given(cell: str, sizes: tuple[int, int, int], dtype: type[np.generic]) -> list[Array]:
    arrays = [random(shape(name, cell, sizes), dtype, seed) for seed, name in enumerate(CELLS[cell].inputs)]
    arrays[CELLS[cell].inputs.index("u")] /= max(1, sizes[2]) ** 0.5
    # Small sums of many large numbers keep few digits.
    return [array / dtype(3) for array in arrays] if sizes == LONG else arrays


def wanted(cell: str, inputs: list[Array | None], sizes: tuple[int, int, int], reverse: bool) -> list[Array]:
    kind, *words = cell.split("_")
    operator: Steps = getattr(reference, "_".join([kind, *(["gradient"] if "gradient" in words else [])]))
    attrs = RnnAttrs(Activation(words[0]), reverse) if kind == "rnn" else RecurrentAttrs(reverse)
    results = [np.zeros(shape(name, cell, sizes)) for name in CELLS[cell].outputs]
    operator(attrs, [array if array is None else array.astype(np.float64) for array in inputs], results)
    return results


@pytest.mark.turns(4)
@pytest.mark.parametrize("reverse", [False, True], ids=["onwards", "reverse"])
@pytest.mark.parametrize("cell", CELLS)
def test_cells(cell: str, reverse: bool) -> None:
    for sizes in SIZES[2:] if reverse else SIZES:
        inputs = given(cell, sizes, np.float32)
        want = [array.astype(np.float32) for array in wanted(cell, list(inputs), sizes, reverse)]
        made = Recurrent(cell, scalar_of(inputs[0]), *sizes, reverse, bias="bias" in CELLS[cell].inputs)
        check(made, inputs, want, spread=10)


@pytest.mark.parametrize("cell", CELLS)
def test_long_steps_of_a_single_block_are_phases(cell: str) -> None:
    def phases(*sizes: int) -> int:
        return len(Recurrent(cell, F32, *sizes, reverse=False).emit(Module(host_target()), "kernel"))

    steps, batch, units = LONG
    assert phases(*LONG) == 1 + steps + CELLS[cell].backward
    assert phases(MOST_STEPS + 1, batch, units) == phases(steps, 2 * batch, units) == phases(steps, batch, 16) == 2


@pytest.mark.parametrize("cell", ["lstm", "lstm_gradient", "gru_gradient"])
def test_f64(cell: str) -> None:
    sizes = (3, 5, 20)
    inputs = given(cell, sizes, np.float64)
    made = Recurrent(cell, scalar_of(inputs[0]), *sizes, False, bias="bias" in CELLS[cell].inputs)
    check(made, inputs, wanted(cell, list(inputs), sizes, False), spread=10)


@pytest.mark.skipif(not host_target().half, reason="no conversion of f16 here")
@pytest.mark.parametrize("cell", CELLS)
def test_what_16_bits_hold_is_rounded_once(cell: str) -> None:
    """States go from step to step in f32, so errors do not grow with the number of steps."""
    sizes = (40, 18, 21)
    inputs = [array * np.float16(0.3) for array in given(cell, sizes, np.float16)]
    want = [array.astype(np.float16) for array in wanted(cell, list(inputs), sizes, False)]
    made = Recurrent(cell, scalar_of(inputs[0]), *sizes, False, bias="bias" in CELLS[cell].inputs)
    check(made, inputs, want)


def test_gru_without_bias() -> None:
    sizes = (3, 4, 18)
    inputs = given("gru", sizes, np.float32)[:3]
    want = [array.astype(np.float32) for array in wanted("gru", [*inputs, None], sizes, False)]
    check(Recurrent("gru", scalar_of(inputs[0]), *sizes, False), inputs, want, spread=10)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
def test_nan_stays_in_its_row_of_the_batch(cell: str) -> None:
    sizes = (3, 5, 16)
    inputs = given(cell, sizes, np.float32)
    inputs[0][1, 2, 3], inputs[0][0, 4, 0] = np.nan, np.inf
    want = [array.astype(np.float32) for array in wanted(cell, list(inputs), sizes, False)]
    assert np.isnan(want[0][2, 2]).all()
    assert not np.isnan(want[0][:, [0, 1, 3]]).any()
    made = Recurrent(cell, scalar_of(inputs[0]), *sizes, False, bias="bias" in CELLS[cell].inputs)
    check(made, inputs, want, spread=10)


@pytest.mark.parametrize("sizes", [(3, 19, 37), LONG], ids=["blocks", "steps"])
@pytest.mark.parametrize(
    ("cell", "source"), [("lstm", 0), ("lstm_gradient", 2), ("rnn_tanh", 0), ("rnn_tanh_gradient", 1)]
)
def test_the_sequence_may_be_overwritten(cell: str, source: int, sizes: tuple[int, int, int]) -> None:
    """The places that `nnc.ops.sequence.recurrent` allows an output to take: results have the same bits."""
    inputs = given(cell, sizes, np.float32)
    made = Recurrent(cell, scalar_of(inputs[0]), *sizes, False)
    want = [array.astype(np.float32) for array in wanted(cell, list(inputs), sizes, False)]
    apart = [np.zeros_like(array) for array in want]
    run(made, inputs, apart)
    place = next(index for index, array in enumerate(want) if array.shape == inputs[source].shape)
    results = [np.zeros_like(array) for array in want]
    results[place] = inputs[source]
    run(made, inputs, results, workers=3)
    assert [one.tobytes() for one in results] == [one.tobytes() for one in apart]
    for result, one in zip(results, want, strict=True):
        np.testing.assert_allclose(result, one, 1e-4, 1e-4)
