"""The table of operators: the rows of all families, and what is no plain call."""

from __future__ import annotations

from nnc.onnx.node import OnnxRow
from nnc.onnx.rows import (
    elementwise,
    indexing,
    learning,
    normalization,
    products,
    quantization,
    quantized,
    random,
    recurrent,
    reduction,
    sampling,
    shape,
    spectra,
    text,
    training,
    transformers,
    trees,
    window,
)
from nnc.onnx.rows.control import SPECIALS

ROWS: dict[str, OnnxRow] = {
    **elementwise.ROWS,
    **indexing.ROWS,
    **learning.ROWS,
    **normalization.ROWS,
    **products.ROWS,
    **quantization.ROWS,
    **quantized.ROWS,
    **random.ROWS,
    **recurrent.ROWS,
    **reduction.ROWS,
    **sampling.ROWS,
    **shape.ROWS,
    **spectra.ROWS,
    **text.ROWS,
    **training.ROWS,
    **transformers.ROWS,
    **trees.ROWS,
    **window.ROWS,
}

__all__ = ["ROWS", "SPECIALS"]
