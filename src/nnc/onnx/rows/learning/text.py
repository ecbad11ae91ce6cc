"""Text: computed where values are known, that is from the inputs of each run."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from nnc.errors import UsageError
from nnc.onnx.node import Array, OnnxNode, OnnxRow


def _words(x: Array) -> list[str]:
    return [
        operand.decode("utf-8", "replace") if isinstance(operand, bytes) else str(operand)
        for operand in x.reshape(-1).tolist()
    ]


def _concatenated(node: OnnxNode, a: Array, b: Array) -> Array:
    left, right = np.broadcast_arrays(a, b)
    joined = [operand + two for operand, two in zip(_words(left), _words(right), strict=True)]
    return np.array(joined, object).reshape(left.shape)


def _matches(node: OnnxNode, x: Array) -> Array:
    try:
        pattern = re.compile(str(node.attributes["pattern"]))
    except re.error as error:
        raise UsageError(node.label, got="a pattern that is none", need=str(error)) from None
    return np.array([pattern.fullmatch(word) is not None for word in _words(x)], bool).reshape(x.shape)


def _split(node: OnnxNode, x: Array) -> tuple[Array, Array]:
    mark, most = node.attributes.get("delimiter") or None, node.attributes.get("maxsplit", -1)
    assert isinstance(most, int)
    parts = [word.split(str(mark) if mark else None, most) for word in _words(x)]
    widest = max(map(len, parts), default=0)
    padded = [[*part, *[""] * (widest - len(part))] for part in parts]
    table = np.array(padded, object).reshape(*x.shape, widest)
    return table, np.array([len(part) for part in parts], np.int64).reshape(x.shape)


CHANGES: dict[object, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper}


def _normalized(node: OnnxNode, x: Array) -> Array:
    """Without stop words, in one case."""
    stops, action = node.attributes.get("stopwords", ()), node.attributes.get("case_change_action", "NONE")
    assert isinstance(stops, tuple)
    strict = bool(node.attributes.get("is_case_sensitive", 0))
    left_out = set(stops) if strict else {str(stop).lower() for stop in stops}
    kept = [word for word in _words(x) if (word if strict else word.lower()) not in left_out]
    change = CHANGES.get(action, str)
    result = np.array([change(word) for word in kept] or [""], object)
    return result.reshape(1, -1) if x.ndim == 2 else result


def _grams(node: OnnxNode) -> dict[tuple[object, ...], int]:
    """Each n-gram of the pool with its number; `ngram_counts` says where those of each length begin."""
    pool = node.attributes.get("pool_strings") or node.attributes.get("pool_int64s", ())
    starts = node.attributes["ngram_counts"]
    assert isinstance(pool, tuple)
    assert isinstance(starts, tuple)
    grams: dict[tuple[object, ...], int] = {}
    for length, (start, end) in enumerate(zip(starts, (*starts[1:], len(pool)), strict=True), 1):
        for place in range(start, end, length):
            grams[pool[place : place + length]] = len(grams)
    return grams


def _frequencies(node: OnnxNode, x: Array) -> Array:
    """How often each n-gram of the pool stands in x, with up to `max_skip_count` elements left out in between."""
    least, most, skips = (node.integer(name, 1) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    grams, places = _grams(node), node.attributes["ngram_indexes"]
    assert isinstance(places, tuple)
    rows = np.atleast_2d(x)
    counts = np.zeros((len(rows), max(places) + 1), np.float32)
    for row, words in enumerate(_words(operand) if x.dtype.kind in "OSU" else operand.tolist() for operand in rows):
        for length in range(least, most + 1):
            for step in range(1, 2 + (skips if length > 1 else 0)):
                for start in range(len(words) - (length - 1) * step):
                    number = grams.get(tuple(words[start : start + (length - 1) * step + 1 : step]))
                    if number is not None:
                        counts[row, places[number]] += 1
    given, mode = node.attributes.get("weights"), node.attributes["mode"]
    weights = np.ones(counts.shape[1], np.float32)
    if isinstance(given, tuple):
        weights[list(places)] = given
    result = counts if mode == "TF" else (counts > 0) * weights if mode == "IDF" else counts * weights
    return np.asarray(result, np.float32).reshape(*x.shape[:-1], -1)


ROWS = {
    "TfIdfVectorizer": OnnxRow(None, _frequencies),
    "StringConcat": OnnxRow(None, _concatenated),
    "RegexFullMatch": OnnxRow(None, _matches),
    "StringSplit": OnnxRow(None, _split),
    "StringNormalizer": OnnxRow(None, _normalized),
}
