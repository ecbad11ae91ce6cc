"""Vectors of texts, by an encoder or by what a decoder has behind its last norm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Size, checked
from nnc.errors import DataError
from nnc.language.architectures import EncoderFiles, ModelFiles, open_encoder, open_files
from nnc.language.architectures.opening import FIRST
from nnc.language.statement import context_of
from nnc.language.text.tokenizer import TextTokenizer, text_tokenizer
from nnc.nn.model.model import Model
from nnc.nn.steps.padding import padded_size

Floats = NDArray[np.float32]
# Texts of about the same length that an encoder reads together.
MOST_TEXTS = 16


class TextVectors:
    """Vectors of texts by one model. Any thread may ask; with a `shared` model its weights are not held twice."""

    def __init__(
        self,
        files: ModelFiles,
        tokenizer: TextTokenizer,
        context: int,
        *,
        backend: str = "",
        shared: Model | None = None,
    ) -> None:
        self._tokenizer, self._context, self._features = tokenizer, context, files.facts.features
        if shared is None:
            self._model = files.model(context, head=False)
            self._model.backend = backend
        else:
            self._model = shared.share(files.network(context, head=False))

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text; DataError for one that has none, or more than the context."""
        return [_fitting(self._tokenizer.encode(text), self._context) for text in texts]

    def of(self, rows: Sequence[Sequence[int]]) -> Floats:
        """A vector [features] of length 1 for each row of tokens: the mean behind the last norm."""
        hidden = (cast("Floats", self._model.predict(np.array([row], np.int32)))[0] for row in rows)
        return _of_length_one([each.mean(0) for each in hidden], self._features)


@checked
def embed(path: Path | str, texts: Sequence[str], *, context: Size = 0, backend: str = "") -> Floats:
    """A vector [features] of length 1 for each text.

    Of an encoder (BERT, RoBERTa, DistilBERT; a folder, one of sentence-transformers too, or a GGUF file) it is the mean
    over the tokens of a text, or its first one where the files say so; of a decoder the mean behind the last norm.
    """
    encoder = open_encoder(path)
    if encoder is not None:
        return _encoded(encoder, texts, context, backend)
    files = open_files(path)
    vectors = TextVectors(files, text_tokenizer(files), context_of(files, context), backend=backend)
    return vectors.of(vectors.tokens(texts))


def _encoded(files: EncoderFiles, texts: Sequence[str], context: int, backend: str) -> Floats:
    """Texts by length, so that few places of a batch are empty."""
    tokenizer, most = text_tokenizer(files), context_of(files, context)
    rows = [_fitting(tokenizer.encode_whole(text), most) for text in texts]
    model = files.model(most)
    model.backend = backend
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    vectors: list[Floats] = [np.zeros(0, np.float32)] * len(rows)
    for start in range(0, len(order), MOST_TEXTS):
        batch = order[start : start + MOST_TEXTS]
        for place, vector in zip(
            batch, _vectors(model, files.pooling, [rows[each] for each in batch], most), strict=True
        ):
            vectors[place] = vector
    return _of_length_one(vectors, files.facts.features)


def _vectors(model: Model, pooling: str, rows: Sequence[Sequence[int]], most: int) -> list[Floats]:
    """What stands for each of some texts, which are filled up to one length."""
    length = padded_size(max(map(len, rows)), most)
    tokens, real = np.zeros((len(rows), length), np.int32), np.zeros((len(rows), length), np.bool_)
    for place, row in enumerate(rows):
        tokens[place, : len(row)], real[place, : len(row)] = row, True
    hidden = cast("Floats", model.predict((tokens, real), batch_size=len(rows)))
    return [each[0] if pooling == FIRST else each[: len(row)].mean(0) for each, row in zip(hidden, rows, strict=True)]


def _fitting(tokens: list[int], most: int) -> list[int]:
    if not 1 <= len(tokens) <= most:
        raise DataError("embed", got=f"a text of {len(tokens)} tokens", need=f"1 to {most}, the context")
    return tokens


def _of_length_one(vectors: Sequence[Floats], features: int) -> Floats:
    made = np.stack(vectors) if vectors else np.zeros((0, features), np.float32)
    return np.asarray(made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12), np.float32)
