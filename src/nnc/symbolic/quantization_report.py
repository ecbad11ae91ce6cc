"""What quantization does to each layer of a network, on data.

noise[dB] = 10 · log₁₀ (Σ y² / Σ (y_q - y)²)        y_q from quantized weights and the exact input of the layer
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.classes import dataclass
from nnc.core.values.dtype import F64
from nnc.core.values.spec import Shape
from nnc.core.values.tensor import Tensor
from nnc.ops import cast, reduce_sum, square, subtract
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.passes import QuantizationMode, quantize_products
from nnc.symbolic.text.tables import table_of, text_table

_COLUMNS = ("weights", "operator", "output", "bytes", "quantized", "signal / noise", "note")


@dataclass(frozen=True, slots=True)
class LayerQuantization:
    """A product: its weights by name, its output, bytes of weights before and after, and signal over noise in decibels.

    `decibels` is infinite where nothing is lost, and nan where the layer is `skipped`, for the reason given there.
    """

    name: str
    operator: str
    output: Shape
    bytes_before: int
    bytes_after: int
    decibels: float
    skipped: str


@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """A row per product, and the 2-norm of the error of all outputs together, relative to that of the outputs."""

    mode: QuantizationMode
    layers: tuple[LayerQuantization, ...]
    error: float

    @property
    def caption(self) -> str:
        """The figures of the whole."""
        before, after = (
            sum(product.bytes_before for product in self.layers),
            sum(product.bytes_after for product in self.layers),
        )
        return f"{self.mode}: relative error {self.error:.2g}, weights of products {before:,} -> {after:,} bytes"

    def __str__(self) -> str:
        return text_table(self.caption, _COLUMNS, map(_cells, self.layers))

    def _repr_html_(self) -> str:
        return table_of(self.caption, _COLUMNS, map(_cells, self.layers))


def _cells(row: LayerQuantization) -> list[object]:
    noise = "" if row.skipped else f"{row.decibels:.1f} dB"
    output = "x".join(map(str, row.output))
    return [row.name, row.operator, output, row.bytes_before, row.bytes_after, noise, row.skipped]


def measure_quantization(
    graph: SymbolicGraph,
    weights: Mapping[Symbol, Tensor],
    inputs: Mapping[Symbol, ArrayLike],
    mode: QuantizationMode,
    backend: str,
) -> tuple[LayerQuantization, ...]:
    """Each product of the graph beside its quantized twin, run once on these inputs."""
    products = quantize_products(graph, weights, mode, backend, compare=True)
    sums: list[Symbol] = []
    for product in products:
        if product.exact is not None and product.approximate is not None:
            axes = tuple(range(len(product.shape)))
            pair = product.exact, subtract(product.approximate, product.exact)
            # Squares of what f32 has go beyond it.
            sums += [reduce_sum(square(cast(y, F64)), axes) for y in pair]
    read = {symbol: value for symbol, value in inputs.items() if graph.readers(symbol.key)}
    compiled = compile(graph, tuple(sums), given=weights, backend=backend) if sums else None
    values = iter(() if compiled is None else compiled(read, *sums))
    return tuple(
        LayerQuantization(
            product.name,
            product.op,
            product.shape,
            product.bytes_before,
            product.bytes_after,
            math.nan if product.skipped else _decibels(float(next(values)), float(next(values))),
            product.skipped,
        )
        for product in products
    )


def relative_error(exact: Sequence[NDArray[np.generic]], approximate: Sequence[NDArray[np.generic]]) -> float:
    """‖y_q - y‖ / ‖y‖ over all outputs; 0 where both are 0."""
    pairs = [(np.asarray(y, np.float64), np.asarray(q, np.float64)) for y, q in zip(exact, approximate, strict=True)]
    noise = math.sqrt(sum(float(np.square(q - y).sum()) for y, q in pairs))
    return noise / (math.sqrt(sum(float(np.square(y).sum()) for y, _ in pairs)) or 1.0) if noise else 0.0


def _decibels(signal: float, noise: float) -> float:
    return 10 * math.log10(signal / noise) if noise and signal else math.inf if not noise else -math.inf
