"""Which inputs of matrices matter, by texts: importance[n] = mean over tokens of x[n]², x what a matrix multiplies.

The squared error of x · W is sum_n (W[n] - W'[n])² · importance[n] where inputs are uncorrelated: blocks minimize that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.dtype import I32
from nnc.errors import DataError
from nnc.language.architectures import ModelFiles
from nnc.language.text.tokenizer import text_tokenizer
from nnc.language.tuning.row_packing import packed_rows
from nnc.language.tuning.training_text import Preference, TokenSequence, read_examples
from nnc.nn.layers.layer import Input, MultiLayer, Scope, T
from nnc.nn.model.model import Model
from nnc.ops import broadcast_to, multiply, reduce_sum, reshape

Importance = Mapping[str, NDArray[np.float64]]
USUAL_CONTEXT, MOST_ROWS = 512, 256


@dataclass(frozen=True, slots=True, eq=False)
class ObservedDecoder(MultiLayer):
    """Tokens, starts and real[batch, t], 1 or 0, to sum_t real · x² for each dense layer, by paths in `order`."""

    decoder: MultiLayer
    order: list[str] = field(default_factory=list, repr=False)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens, starts, and which places hold tokens."""
        tokens, starts, real = inputs
        squares: dict[str, T] = {}

        def observed(place: Scope[T], x: T, y: T) -> T:
            there = broadcast_to(reshape(real, (*real.shape, 1)), x.shape)
            squares[place.path] = reduce_sum(multiply(multiply(x, x), there), (1,))
            return y

        self.decoder.build_many(replace(scope, adapt=observed), (tokens, starts))
        self.order[:] = sorted(squares)
        return tuple(squares[path] for path in self.order)


def importance_of(files: ModelFiles, texts: Path | str, context: int = 0, backend: str = "") -> Importance:
    """The importance of the inputs of each dense layer by its path, over the texts of a file as for `FineTuning`.

    At most 256 rows of `context` tokens (512) are read.
    """
    examples = read_examples(texts, text_tokenizer(files))
    sequences = [each for each in examples if isinstance(each, TokenSequence)]
    sequences += [side for each in examples if isinstance(each, Preference) for side in (each.chosen, each.rejected)]
    whole = [TokenSequence(each.tokens, np.ones(len(each), np.bool_)) for each in sequences]
    length = min(context or USUAL_CONTEXT, files.facts.context)
    rows = packed_rows(whole, length, whole=True)
    network = ObservedDecoder(files.decoder(length))
    row = Input((length,), I32)
    model = Model(network, (row, row, Input((length,))), backend=backend)
    tokens, starts, labels = (each[:MOST_ROWS] for each in (rows.tokens, rows.starts, rows.labels))
    real = (labels >= 0).astype(np.float32)
    squares = model.predict_all((tokens, starts, real), batch_size=1)
    if not all(np.isfinite(each).all() for each in squares):
        raise DataError("quantize", got="inputs of layers that are no numbers", need="a model that reads these texts")
    means = (cast("NDArray[np.float64]", each.sum(0, dtype=np.float64) / real.sum()) for each in squares)
    return dict(zip(network.order, means, strict=True))
