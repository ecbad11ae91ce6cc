"""Layers that prepare words under Keras' names, by what `adapt` has seen of them.

Words are NumPy's, so layers of words stand before a model and not in it: `ids = vectorize(texts)`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Size, shown
from nnc.array_api.data_types import numpy_work
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ArgumentError, ArityError, DataError, UsageError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.engine.keras_tensor import KerasTensor
from nnc.keras.layers.number_layers import single_of
from nnc.keras.metric_states import real
from nnc.keras.named import Made, named
from nnc.ops.number import INTEGERS

__all__ = [
    "IntegerLookup", "StringLookup", "TextVectorization",
]  # fmt: skip

# What may stand in a vocabulary.
WORDS = (str, bytes, Real, type(None), np.generic)
Output: TypeAlias = Literal["int", "one_hot", "multi_hot", "count", "tf_idf"]


def encoded(places: NDArray[Any], size: int, output: str, scale: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """places[…, k] as 1 at each ("one_hot"), or for each row whether and how often it has each one; -1 is none."""
    if output == "one_hot":
        places = places[..., None] if not places.ndim or places.shape[-1] != 1 else places
    flat = np.atleast_1d(places)
    rows = flat.reshape(math.prod(flat.shape[:-1]), flat.shape[-1])
    counts = np.zeros((len(rows), size), np.float32)
    for row, own in zip(counts, rows, strict=True):
        np.add.at(row, own[own >= 0], 1.0)
    if output in ("one_hot", "multi_hot"):
        counts = np.minimum(counts, 1.0)
    if scale is not None:
        counts = counts * scale
    return counts.reshape(*flat.shape[:-1], size)


def by_frequency(words: Iterable[Any], most: int | None = None) -> list[Any]:
    """The words, the most frequent first; of equally frequent ones the last in the alphabet."""
    counts = Counter(words)
    return sorted(sorted(counts, reverse=True), key=lambda word: -counts[word])[:most]


class _OfWords(Layer):
    """A layer before a model: of arrays of NumPy's, words among them."""

    # Said here, so that `__call__` is not taken for it, as it is in modules of users.
    forward = Layer._run_call

    def __call__(self, *values: Any, name: str = "", **options: Any) -> Any:
        """The numbers for these words."""
        if len(values) != 1:
            raise ArityError(type(self).__name__, got=f"{len(values)} inputs", need="one", origin=caller_origin())
        (inputs,) = values
        if isinstance(inputs, KerasTensor):
            kind = type(self).__name__
            fix = f"ids = layer(words) before fit, and keras.Input(shape=…, dtype={'int64'!r})"
            raise UsageError(kind, got="an input of a model", need="words", fix=fix, origin=caller_origin())
        return self.answered(inputs)

    def answered(self, inputs: Any) -> Any:
        """What comes of a call."""
        return eager.tensor(self.numbers(_words(inputs)))

    def numbers(self, words: NDArray[Any]) -> NDArray[Any]:
        """The numbers for these words."""
        raise NotImplementedError

    def remember(self, **options: Any) -> None:
        """What the layer is made again of, with what it has seen."""
        object.__setattr__(self, "_made", Made((), {**self.get_config(), **options}))


def _words(given: Any) -> NDArray[Any]:
    whole = hasattr(given, "__array__") or isinstance(given, str | bytes | list | tuple | int | np.generic)
    if not whole and not isinstance(given, Iterable):
        raise ArgumentError("adapt", got=shown(given), need="words", origin=caller_origin())
    with numpy_work("adapt"):
        array = np.asarray(given) if whole else np.concatenate([np.atleast_1d(_words(part)) for part in given])
        array = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    if array.dtype.kind == "O" and not all(isinstance(word, WORDS) for word in array.flat):
        raise ArgumentError("adapt", got=shown(given), need="words or numbers", origin=caller_origin())
    return array


def _vocabulary(kind: str, given: Any) -> list[Any]:
    """The words of a list, an array, or a file with one in each line."""
    if isinstance(given, str | Path):
        try:
            given = Path(given).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            got, fix = shown(str(given)), "vocabulary=[…]"
            raise ArgumentError(kind, got=got, need="a file of words", fix=fix, origin=caller_origin()) from None
    words = given.tolist() if isinstance(given, np.ndarray) else given
    words = list(words) if isinstance(words, Iterable) and not isinstance(words, ArrayOperand | bytes) else [words, []]
    if not all(isinstance(word, WORDS) for word in words):
        raise ArgumentError(kind, got=shown(given), need="a list of words", origin=caller_origin())
    return [word.item() if isinstance(word, np.generic) else word for word in words]


def check_most(kind: str, most: int | None, count: int) -> None:
    """ArgumentError where there are more places than may be."""
    if most is not None and count > most:
        raise ArgumentError(kind, got=f"max_tokens={most}", need=f"at least {count}", origin=caller_origin())


class _Lookup(_OfWords):
    """The place of each word in a vocabulary, behind the mask's and those of unknown words."""

    unknown: Any
    # Of what kind words are, and what to make a layer of for others.
    kinds: tuple[type, ...]
    called: str
    other: str

    def __init__(
        self,
        max_tokens: Count | None = None,
        num_oov_indices: Size = 1,
        mask_token: str | float | None = None,
        oov_token: str | float | None = None,
        vocabulary: Any = None,
        output_mode: Output = "int",
        invert: bool = False,
        pad_to_max_tokens: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        kind = type(self).__name__
        if num_oov_indices > 1 or output_mode == "tf_idf":
            got = f"num_oov_indices={num_oov_indices}, output_mode={output_mode!r}"
            raise ArgumentError(kind, got=got, need="one place for unknown words, and no tf_idf")
        self.max_tokens, self.output_mode, self.invert = max_tokens, output_mode, invert
        self.num_oov_indices, self.mask_token, self.pad_to_max_tokens = num_oov_indices, mask_token, pad_to_max_tokens
        self.oov_token = self.unknown if oov_token is None else oov_token
        self.tokens: list[Any] = []
        check_most(kind, max_tokens, len(self.head()) + 1)
        if vocabulary is not None:
            self.set_vocabulary(vocabulary)

    def head(self) -> list[Any]:
        """What stands before the words."""
        masked = [] if self.mask_token is None else [self.mask_token]
        return masked + [self.oov_token] * self.num_oov_indices

    def set_vocabulary(self, vocabulary: Any) -> None:
        """Know these words, with or without what stands before them."""
        tokens = self.of_kind(_vocabulary(type(self).__name__, vocabulary))
        head = self.head()
        self.tokens = tokens[len(head) :] if head and tokens[: len(head)] == head else tokens
        if len(set(self.tokens)) != len(self.tokens):
            raise DataError(type(self).__name__, got="a word twice", need="each once", origin=caller_origin())
        check_most(type(self).__name__, self.max_tokens, len(head) + len(self.tokens))
        self.remember(vocabulary=self.tokens)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Know the words of the data, the most frequent first."""
        most = None if self.max_tokens is None else self.max_tokens - len(self.head())
        self.set_vocabulary(by_frequency(_words(data).ravel().tolist(), most))

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The words by their places."""
        return [*(self.head() if include_special_tokens else []), *self.tokens]

    def vocabulary_size(self) -> int:
        """How many places there are."""
        return len(self.get_vocabulary())

    def answered(self, inputs: Any) -> Any:
        """The places of these words, or with `invert` the words at these places, an array of NumPy's."""
        if not self.invert:
            return super().answered(inputs)
        if not self.tokens:
            raise self.untold()
        names = np.asarray(self.get_vocabulary())
        with numpy_work(type(self).__name__):
            places = real(inputs).astype(np.int64)
        within = np.clip(places, 0, len(names) - 1)
        return np.where(places == within, names[within], self.oov_token)

    def of_kind(self, words: list[Any]) -> list[Any]:
        """These words; ArgumentError for others than the layer knows, which would all be unknown ones."""
        if strange := [word for word in words if isinstance(word, bool) or not isinstance(word, self.kinds)]:
            kind, fix = type(self).__name__, f"keras.layers.{self.other}"
            raise ArgumentError(kind, got=shown(strange[0]), need=self.called, fix=fix, origin=caller_origin())
        return words

    def untold(self) -> UsageError:
        """The error where no words are known."""
        kind, fix = type(self).__name__, "layer.adapt(words), or vocabulary=[…]"
        return UsageError(kind, got="no vocabulary", need="one", fix=fix, origin=caller_origin())

    def places(self, words: NDArray[Any]) -> NDArray[np.int64]:
        """The place of each word."""
        if not self.tokens:
            raise self.untold()
        first, given = len(self.head()), self.of_kind(words.ravel().tolist())
        known = {word: first + place for place, word in enumerate(self.tokens)}
        if self.mask_token is not None:
            known[self.mask_token] = 0
        other = first - 1 if self.num_oov_indices else -1
        places = [known.get(word, other) for word in given]
        if not self.num_oov_indices and -1 in places:
            raise DataError(type(self).__name__, got="a word that is not known", need="one of the vocabulary")
        return np.asarray(places, np.int64).reshape(words.shape)

    def numbers(self, words: NDArray[Any]) -> NDArray[Any]:
        places = self.places(words)
        if self.output_mode == "int":
            return places
        size = self.vocabulary_size()
        if self.pad_to_max_tokens and self.max_tokens:
            size = self.max_tokens
        masked = 0 if self.mask_token is None else 1
        return encoded(places - masked, size - masked, self.output_mode).astype(np.int64)


class StringLookup(_Lookup):
    """The place of each word: 0 is one that is not known, words are numbered from 1.

    >>> from nnc import keras
    >>> keras.layers.StringLookup(vocabulary=["a", "b"])(["b", "z"]).tolist()
    [2, 0]
    """

    unknown, kinds, called, other = "[UNK]", (str,), "words", "IntegerLookup"


class IntegerLookup(_Lookup):
    """The place of each whole number: 0 is one that is not known, others are numbered from 1."""

    unknown, kinds, called, other = -1, (int,), "whole numbers", "StringLookup"


PUNCTUATION = re.compile(r"""[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']""")
STANDARDS: dict[str, Callable[[str], str]] = {
    "lower_and_strip_punctuation": lambda text: PUNCTUATION.sub("", text.lower()),
    "lower": str.lower,
    "strip_punctuation": lambda text: PUNCTUATION.sub("", text),
}
SPLITS: dict[str, Callable[[str], list[str]]] = {"whitespace": str.split, "character": list}


def _function(option: str, value: Any, table: dict[str, Callable[[str], Any]]) -> Callable[[str], Any] | None:
    """The function of that name, or a given one."""
    if value is None or callable(value):
        return value  # type: ignore[no-any-return]  # a function
    if isinstance(value, str):
        return named(option, value, table)
    need = f"{' or '.join(map(repr, table))}, a function, or None"
    raise ArgumentError("TextVectorization", got=f"{option}={shown(value)}", need=need, origin=caller_origin())


class TextVectorization(_OfWords):
    """Texts as the places of their words: 0 fills up, 1 is a word that is not known, words are numbered from 2.

    >>> from nnc import keras
    >>> layer = keras.layers.TextVectorization(output_sequence_length=4)
    >>> layer.adapt(["the cat", "The dog!"])
    >>> layer(["the bird"]).tolist()
    [[2, 1, 0, 0]]
    """

    def __init__(
        self,
        max_tokens: Count | None = None,
        standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace",
        ngrams: Count | Sequence[Count] | None = None,
        output_mode: Output = "int",
        output_sequence_length: Count | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Sequence[str] | None = None,
        idf_weights: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.max_tokens, self.output_mode, self.length = max_tokens, output_mode, output_sequence_length
        self.standardize = _function("standardize", standardize, STANDARDS)
        self.split = _function("split", split, SPLITS)
        self.sizes = range(1, ngrams + 1) if isinstance(ngrams, INTEGERS) else (1,) if ngrams is None else tuple(ngrams)
        self.pad_to_max_tokens = pad_to_max_tokens
        self.weights_of_words = None if idf_weights is None else single_of("TextVectorization", idf_weights)
        # Texts that fill up are no words of theirs in counts.
        self.table = StringLookup(max_tokens, mask_token="" if output_mode == "int" else None)
        if vocabulary is not None:
            self.set_vocabulary(vocabulary)

    def words_of(self, text: str) -> list[str]:
        """The words of one text, and those that stand side by side."""
        if not isinstance(text, str):
            raise DataError("TextVectorization", got=shown(text), need="texts", origin=caller_origin())
        text = text if self.standardize is None else str(self.standardize(text))
        words = [text] if self.split is None else [str(word) for word in self.split(text)]
        sizes = self.sizes[: len(words)] if isinstance(self.sizes, range) else self.sizes
        return [" ".join(words[at : at + size]) for size in sizes for at in range(len(words) - size + 1)]

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Know these words."""
        self.table.set_vocabulary(vocabulary)
        options = {} if idf_weights is None else {"idf_weights": idf_weights}
        if idf_weights is not None:
            self.weights_of_words = single_of("TextVectorization", idf_weights)
        self.remember(vocabulary=self.table.tokens, **options)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Know the words of these texts, the most frequent first."""
        texts = [self.words_of(text) for text in _words(data).ravel().tolist()]
        most = None if self.max_tokens is None else self.max_tokens - len(self.table.head())
        words = by_frequency((word for text in texts for word in text), most)
        seen = Counter(word for text in texts for word in set(text))
        weights = np.asarray([np.log(1 + len(texts) / (1 + seen[word])) for word in words], np.float32)
        self.set_vocabulary(words, weights.tolist())

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The words by their places."""
        return self.table.get_vocabulary(include_special_tokens)

    def vocabulary_size(self) -> int:
        """How many places there are."""
        return self.table.vocabulary_size()

    def numbers(self, words: NDArray[Any]) -> NDArray[Any]:
        alone = words.ndim == 0
        texts = words.reshape(-1) if words.ndim < 2 or words.shape[-1] == 1 else None
        if texts is None:
            raise ArgumentError("TextVectorization", got=f"texts {words.shape}", need="[texts], or [texts, 1]")
        rows = [self.table.places(np.asarray(self.words_of(text), np.str_)) for text in texts.tolist()]
        if self.output_mode == "int":
            length = self.length or max(map(len, rows), default=0)
            filled = np.zeros((len(rows), length), np.int64)
            for own, row in zip(filled, rows, strict=True):
                own[: min(len(row), length)] = row[:length]
            return filled[0] if alone else filled
        size = self.max_tokens if self.pad_to_max_tokens and self.max_tokens else self.vocabulary_size()
        longest = max(1, *map(len, rows)) if rows else 1
        places = np.full((len(rows), longest), -1, np.int64)
        for own, row in zip(places, rows, strict=True):
            own[: len(row)] = row
        scale = None
        if self.output_mode == "tf_idf":
            if self.weights_of_words is None or self.weights_of_words.shape != (len(self.table.tokens),):
                got, fix = "no weights of these words", "layer.adapt(texts), or idf_weights=[…]"
                raise UsageError("TextVectorization", got=got, need="one each", fix=fix, origin=caller_origin())
            scale = np.zeros(size, np.float32)
            scale[1 : 1 + len(self.weights_of_words)] = self.weights_of_words
            scale[0] = self.weights_of_words.mean()
        counts = encoded(places, size, self.output_mode, scale)
        return counts[0] if alone else counts
