"""The table of operators: the rows of all families, and what is no plain call."""

from __future__ import annotations

from nnc.onnx.node import OnnxRow
from nnc.onnx.rows.control.control import SPECIALS
from nnc.onnx.rows.convolutions import products, sampling, window
from nnc.onnx.rows.elementwise import elementwise
from nnc.onnx.rows.indexing import indexing
from nnc.onnx.rows.learning import learning, text, trees
from nnc.onnx.rows.movement import resize, shape
from nnc.onnx.rows.normalization import normalization
from nnc.onnx.rows.optimizer import training
from nnc.onnx.rows.products import spectra
from nnc.onnx.rows.quantization import quantization, quantized, quantized_recurrent
from nnc.onnx.rows.random import random
from nnc.onnx.rows.reduction import reduction
from nnc.onnx.rows.sequence import recurrent, transformers

ROWS: dict[str, OnnxRow] = {
    **elementwise.ROWS,
    **indexing.ROWS,
    **learning.ROWS,
    **normalization.ROWS,
    **products.ROWS,
    **quantization.ROWS,
    **quantized.ROWS,
    **quantized_recurrent.ROWS,
    **random.ROWS,
    **recurrent.ROWS,
    **reduction.ROWS,
    **resize.ROWS,
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
