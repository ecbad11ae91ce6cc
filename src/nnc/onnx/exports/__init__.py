"""What each of our operators is in a file of ONNX: one row per operator, in a file per family.

A row writes nodes and gives back names, or it composes the operator of others of ours and gives back operands.
"""

from __future__ import annotations

from nnc.onnx.exporter import ExportRow
from nnc.onnx.exports import elementwise, normalization, products, recurrent, reduction, shape, window

EXPORTS: dict[str, ExportRow] = {
    **elementwise.EXPORTS,
    **normalization.EXPORTS,
    **products.EXPORTS,
    **recurrent.EXPORTS,
    **reduction.EXPORTS,
    **shape.EXPORTS,
    **window.EXPORTS,
}

__all__ = ["EXPORTS"]
