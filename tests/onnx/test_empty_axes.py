"""An axis of 2^40 over no elements takes no memory: what steps through it ends at once, or is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.limits import time_limit
from tests.onnx.models import model, node

import nnc
import onnx
from nnc import keras
from nnc.errors import MemoryLimitError, ShapeError
from nnc.onnx import load
from onnx import helper

HUGE = 1 << 40


def _recurrent(op: str, gates: int, **attributes: object) -> onnx.ModelProto:
    weights = {"w": np.ones((1, 2 * gates, 3), np.float32), "r": np.ones((1, 2 * gates, 2), np.float32)}
    return model([node(op, "x w r", "y", hidden_size=2, **attributes)], {"x": [HUGE, 0, 3]}, ["y"], weights)


def _scan() -> onnx.ModelProto:
    values = {name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [0]) for name in "se"}
    body = helper.make_graph(
        [node("Add", "s e", "n"), node("Identity", "n", "o")],
        "scan",
        [*values.values()],
        [helper.make_empty_tensor_value_info(name) for name in "no"],
    )
    return model([node("Scan", "s x", "f y", body=body, num_scan_inputs=1)], {"s": [0], "x": [HUGE, 0]}, ["y"], {})


def _one(op: str, shape: list[int], **attributes: object) -> onnx.ModelProto:
    return model([node(op, "x", "y", **attributes)], {"x": shape}, ["y"], {})


MODELS: dict[str, tuple[onnx.ModelProto, tuple[int, ...] | type[Exception]]] = {
    "GRU": (_recurrent("GRU", 3), (HUGE, 1, 0, 2)),
    "GRU, clipped": (_recurrent("GRU", 3, linear_before_reset=1, clip=1.0), (HUGE, 1, 0, 2)),
    "LSTM": (_recurrent("LSTM", 4), (HUGE, 1, 0, 2)),
    "LSTM, clipped": (_recurrent("LSTM", 4, clip=1.0), (HUGE, 1, 0, 2)),
    "RNN": (_recurrent("RNN", 1), (HUGE, 1, 0, 2)),
    "Scan": (_scan(), ShapeError),
    "Unique of rows": (_one("Unique", [HUGE, 0], axis=0), MemoryLimitError),
    "Unique of no columns": (_one("Unique", [HUGE, 0], axis=1), (HUGE, 0)),
    "Unique of few rows": (_one("Unique", [3, 0], axis=0), (1, 0)),
    "SplitToSequence": (_one("SplitToSequence", [HUGE, 0]), ShapeError),
}


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_files_over_2_to_the_40_rows_of_nothing(backend: str) -> None:
    for name, (file, wanted) in MODELS.items():
        given = {
            value.name: np.empty([size.dim_value for size in value.type.tensor_type.shape.dim], np.float32)
            for value in file.graph.input
        }
        with time_limit(5):
            if isinstance(wanted, tuple):
                assert load(file, backend=backend).run(given)["y"].shape == wanted, name
            else:
                with pytest.raises(wanted, match=name.split(" ")[0]):
                    load(file, backend=backend).run(given)


def test_more_steps_than_can_be_made_one_by_one_are_refused() -> None:
    file = _recurrent("GRU", 3)
    for size, dim in zip((1 << 20, 1, 3), file.graph.input[0].type.tensor_type.shape.dim, strict=True):
        dim.dim_value = size
    with time_limit(5), pytest.raises(ShapeError, match="1048576 steps; need at most 4096"):
        load(file).memory()


def test_arrays_of_2_to_the_40_rows_of_nothing() -> None:
    x = nnc.asarray(np.empty((HUGE, 0), np.float32))
    steps = nnc.asarray(np.empty((0, HUGE, 3), np.float32))
    with time_limit(5):
        for call in (
            lambda: nnc.scan(lambda carry, row: (carry, row), x[0], x),
            lambda: keras.layers.RNN(keras.layers.LSTMCell(2))(steps),
        ):
            with pytest.raises(ShapeError, match="scan: got 1099511627776 rows of nothing; need at most 65536"):
                call()
        for entries in (lambda: nnc.unstack(x), lambda: [*x], lambda: nnc.split(x, HUGE)):
            with pytest.raises(MemoryLimitError, match="1099511627776 parts; need at most"):
                entries()
        assert keras.layers.GRU(2)(steps).shape == (0, 2)
        assert len(nnc.array_split(x[:3], 100_000, axis=0)) == 100_000
