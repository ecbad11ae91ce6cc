"""Files in other formats: matrices change, all else stays, and rows that do not fit have blocks that do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import write_text_model

from nnc.core.values.blocks import dequantize, quantize
from nnc.errors import FormatError, UsageError
from nnc.language import quantize as requantize
from nnc.language.gguf import TensorSource, read_gguf, write_gguf


def test_matrices_are_those_of_the_format_and_the_rest_stays(tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "a.gguf")
    report = requantize(place, "q5_1", tmp_path / "b.gguf")
    before, after = read_gguf(place), read_gguf(tmp_path / "b.gguf")
    assert after.texts("tokenizer.ggml.tokens") == before.texts("tokenizer.ggml.tokens")
    name = "blk.0.ffn_down.weight"
    values = before.bytes(name).view(np.float32)
    assert (after.bytes(name) == quantize(values, "q5_1")).all()
    assert (after.bytes("output_norm.weight") == before.bytes("output_norm.weight")).all()
    error = np.linalg.norm(dequantize(after.bytes(name), "q5_1") - values) / np.linalg.norm(values)
    assert 0.5 * error < report.error < 2 * error
    again = requantize(tmp_path / "b.gguf", "q5_1", tmp_path / "c.gguf")
    assert again.error == 0
    assert (tmp_path / "b.gguf").read_bytes() == (tmp_path / "c.gguf").read_bytes()


def test_rows_that_are_no_whole_blocks_have_others(tmp_path: Path) -> None:
    shapes = {"long": (2, 256), "short": (2, 32), "odd": (2, 3), "output.weight": (2, 256), "vector": (4,)}
    place, generator = tmp_path / "a.gguf", np.random.default_rng(0)
    write_gguf(
        place, {}, [TensorSource.of(name, generator.random(shape, np.float32)) for name, shape in shapes.items()]
    )
    requantize(place, "q4_k", tmp_path / "b.gguf")
    kinds = {row.name: row.kind.name for row in read_gguf(tmp_path / "b.gguf").tensors.values()}
    assert kinds == {"long": "q4_k", "short": "q5_0", "odd": "f16", "output.weight": "q6_k", "vector": "f32"}
    requantize(tmp_path / "b.gguf", "f32", tmp_path / "c.gguf")
    long = read_gguf(tmp_path / "c.gguf").bytes("long").view(np.float32)
    assert (long == dequantize(read_gguf(tmp_path / "b.gguf").bytes("long"), "q4_k")).all()


def test_what_cannot_be_converted_is_an_error(tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "a.gguf")
    with pytest.raises(UsageError, match="to 'q3'"):
        requantize(place, "q3", tmp_path / "b.gguf")
    write_gguf(tmp_path / "c.gguf", {}, [TensorSource("w", (1, 256), "iq1_s", lambda: np.zeros(50, np.uint8))])
    with pytest.raises(FormatError, match="w in iq1_s"):
        requantize(tmp_path / "c.gguf", "q8_0", tmp_path / "d.gguf")
    assert not (tmp_path / "d.gguf").exists()
