"""What a causal language model says next: tokens after prompts, each step on keys and values that are kept.

A generation has caches of its own, with room for so many tokens in each row as may come to stand there, and runs two
programs over them: one reads all prompts, 256 tokens at a time (shorter ones are filled up behind, where nothing
looks), and one each token that follows. Sizes are powers of two, so that few programs serve all lengths and batches.
Models whose layers cannot keep what they need read all tokens again at each step (`Model.cache_obstacle` says why).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, cast, overload
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Positive, Seed, checked, shown
from nnc.errors import ArgumentError, DataError, UsageError
from nnc.nn.inference.frozen_generation import FrozenGeneration
from nnc.nn.inference.next_token import Part, TokenChoice, log_softmax_of
from nnc.nn.model.model import Model
from nnc.nn.steps.generation_caches import GenerationCaches, alike, pages_of_rows
from nnc.nn.steps.model_step import ModelStep
from nnc.nn.steps.padding import MOST_STEPS
from nnc.ops.number import INTEGERS
from nnc.ops.sequence.cached_attention import PAGE

# A prompt is read at least this many tokens at once: with few or many others a token has the same bits.
TOGETHER = 2

Tokens: TypeAlias = Sequence[int] | NDArray[np.integer]
Scores: TypeAlias = NDArray[np.float64]
TokenModel: TypeAlias = Model | FrozenGeneration


class Reader(Protocol):
    """Rows of tokens that grow, and the scores of what follows each."""

    def read(self, rows: Sequence[Sequence[int]]) -> Scores:
        """Scores[rows, vocabulary] behind the prompts."""
        ...

    def follow(self, tokens: Sequence[int]) -> Scores:
        """The same behind one more token in each row."""
        ...

    def reorder(self, rows: Sequence[int]) -> None:
        """Go on with these rows in the place of all."""
        ...


class CachedReader:
    """A batch of `count` rows, each with room for `length` tokens.

    Caches are its own, but for whole pages of the first `prefix` tokens, which are the same in all rows.
    """

    def __init__(self, model: TokenModel, count: int, length: int, prefix: int = 0) -> None:
        self._model, self._count, self._length = model, count, length
        self._common = prefix // PAGE * PAGE if count > 1 else 0
        self._caches = self._caches_of_rows()
        self._next = model.generation_step(self._caches, 1)
        self._ends = np.zeros(self._next.inputs[0].shape[0], np.int32)

    def read(self, rows: Sequence[Sequence[int]]) -> Scores:
        """Part by part: each row has its scores of the part that its end is in."""
        lengths = np.array([len(row) for row in rows])
        self._ends[: self._count] = lengths
        most = int(lengths.max())
        self._read_common(rows[0])
        scores = np.empty(0)
        for start in range(self._common, most, MOST_STEPS):
            stop = min(start + MOST_STEPS, most)
            part = read_part(self._model, self._caches, rows, stop, max(stop - start, min(TOGETHER, stop)))
            scores = np.where((lengths > start)[:, None], part, scores) if start > self._common else part
        return scores

    def _caches_of_rows(self) -> GenerationCaches:
        """With pages where rows have some in common, and can have them."""
        if self._common:
            with suppress(UsageError):
                return paged_caches(self._model, self._count, self._length, self._common)
            self._common = 0
        return borrowed_caches(self, self._model, self._count, self._length)

    def _read_common(self, row: Sequence[int]) -> None:
        """Read what all rows begin with once, and let all have its pages."""
        if not self._common:
            return
        first = self._caches.row(0)
        first.reserve(self._common)
        for stop in range(PAGE, self._common + 1, PAGE):
            read_part(self._model, first, [row], stop, PAGE)
        for place in range(self._count):
            own = self._caches.row(place)
            if place:
                own.begin_as(first, self._common)
            own.reserve(self._length, begin=self._common)

    def follow(self, tokens: Sequence[int]) -> Scores:
        column = np.zeros((len(self._ends), 1), np.int64)
        column[: self._count, 0] = tokens
        # Rows that fill up the batch stand at the beginning.
        scores = self._run(self._next, column, self._ends[:, None], np.zeros_like(self._ends))
        self._ends[: self._count] += 1
        return scores

    def reorder(self, rows: Sequence[int]) -> None:
        order = np.arange(len(self._ends))
        order[: self._count] = rows

        self._model.exclusively(partial(self._caches.reorder, order))
        self._ends = self._ends[order]

    def _run(self, step: ModelStep, *values: NDArray[np.generic]) -> Scores:
        return scores_behind(self._model, self._caches, step, values)[: self._count]


def paged_caches(model: TokenModel, count: int, length: int, prefix: int) -> GenerationCaches:
    """Caches of rows that have a prefix in common; UsageError of a model whose rows cannot have pages."""
    caches = model.generation_caches(count, length, pages_of_rows(count, length, prefix))
    # Which makes the tensors.
    model.generation_step(caches, 1)
    if not caches.on_host:
        raise UsageError("prefix", got="caches on a device", need="the memory of the host")
    return caches


def read_part(
    model: TokenModel, caches: GenerationCaches, rows: Sequence[Sequence[int]], stop: int, count: int
) -> Scores:
    """Scores[rows, vocabulary] behind the last token in front of `stop` of each row, `count` of which are new.

    A step that takes more tokens reads earlier ones again, which changes nothing, as do rows that end before; where
    there are none, it is filled up behind, where nothing looks and the next tokens are written over it.
    """
    step = model.generation_step(caches, count)
    tokens = np.zeros(step.inputs[0].shape, np.int64)
    first, ends = np.zeros((len(tokens), 1), np.int64), np.zeros(len(tokens), np.int32)
    for place, row in enumerate(rows):
        own = min(stop, len(row))
        first[place] = max(own - tokens.shape[1], 0)
        part = row[int(first[place, 0]) : own]
        tokens[place, : len(part)] = part
        ends[place] = max(len(part) - 1, 0)
    positions = first + np.arange(tokens.shape[1])
    return scores_behind(model, caches, step, (tokens, positions, ends))[: len(rows)]


def scores_behind(
    model: TokenModel, caches: GenerationCaches, step: ModelStep, values: tuple[NDArray[np.generic], ...]
) -> Scores:
    """Scores of a step over tokens, their positions and which of them are the last ones; pages are told to it here."""
    caches.writes(int(values[1].max()) + 1)
    values = (*values, *caches.addresses(values[1]))
    (scores,) = model.between_updates("generate", partial(step.run, values))
    return scores.astype(np.float64)


def borrowed_caches(owner: object, model: TokenModel, batch: int, length: int) -> GenerationCaches:
    """Empty caches, which the model has again when the `owner` is gone."""
    caches = model.generation_caches(batch, length)
    finalize(owner, model.give_back, caches).atexit = False
    return caches


class RereadingReader:
    """Rows of tokens, all of which the model reads at each step."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._rows: list[list[int]] = []

    def read(self, rows: Sequence[Sequence[int]]) -> Scores:
        self._rows = [list(row) for row in rows]
        kind = self._model.inputs[0].dtype.numpy
        logits = [self._model.predict(np.array([row], kind))[0, -1] for row in self._rows]
        return np.array(logits, np.float64)

    def follow(self, tokens: Sequence[int]) -> Scores:
        return self.read([[*row, token] for row, token in zip(self._rows, tokens, strict=True)])

    def reorder(self, rows: Sequence[int]) -> None:
        self._rows = [list(self._rows[row]) for row in rows]


@overload
def generate(
    model: TokenModel,
    prompt: NDArray[np.integer] | Sequence[int],
    length: Count = ...,
    *,
    temperature: Positive | None = ...,
    top_k: Count | None = ...,
    top_p: Part | None = ...,
    min_p: Part | None = ...,
    beams: Count = ...,
    stop: Iterable[int] = ...,
    seed: Seed = ...,
    cache: bool = ...,
) -> list[int]: ...
@overload
def generate(
    model: TokenModel,
    prompt: Sequence[Tokens],
    length: Count = ...,
    *,
    temperature: Positive | None = ...,
    top_k: Count | None = ...,
    top_p: Part | None = ...,
    min_p: Part | None = ...,
    beams: Count = ...,
    stop: Iterable[int] = ...,
    seed: Seed = ...,
    cache: bool = ...,
) -> list[list[int]]: ...
@checked
def generate(
    model: TokenModel,
    prompt: Sequence[Any] | NDArray[np.integer],
    length: Count = 50,
    *,
    temperature: Positive | None = None,
    top_k: Count | None = None,
    top_p: Part | None = None,
    min_p: Part | None = None,
    beams: Count = 1,
    stop: Iterable[int] = (),
    seed: Seed = 0,
    cache: bool = True,
) -> list[int] | list[list[int]]:
    """At most `length` tokens that follow the prompt, or a list of them for each of several prompts of any lengths.

    The best token each time, or drawn ones (`TokenChoice`), the same for the same seed. A row ends before a token of
    `stop`. With `beams`, the tokens of the highest mean log-probability among so many candidates that are kept.
    Without a `cache` all tokens are read again at each step: slow, and the same tokens but for rounding.
    """
    rows, single = _rows_of(model, prompt, length)
    ends = _stops(model, stop)
    choice = TokenChoice(temperature, top_k, top_p, seed, min_p)
    if beams > 1:
        if not choice.greedy:
            raise UsageError("generate", got="beams that draw", need="beams, or temperature, top_k and top_p")
        written = _search(_reader(model, len(rows) * beams, rows, length, cache=cache), rows, length, beams, ends)
    else:
        written = [[] for _ in rows]
        generators = [choice.generator(row) for row in range(len(rows))]
        reader = _reader(model, len(rows), rows, length, cache=cache)
        for tokens in _grow(reader, rows, length, choice, ends, generators):
            for row, token in zip(written, tokens, strict=True):
                row.extend(() if token is None else (token,))
    return written[0] if single else written


@checked
def stream(
    model: TokenModel,
    prompt: Tokens,
    length: Count = 50,
    *,
    temperature: Positive | None = None,
    top_k: Count | None = None,
    top_p: Part | None = None,
    min_p: Part | None = None,
    stop: Iterable[int] = (),
    seed: Seed = 0,
    cache: bool = True,
    sliding: bool = False,
) -> Iterator[int]:
    """The tokens of `generate`, each as soon as it is known. Arguments are checked at once, not at the first token.

    A `sliding` one goes on where the model has no more positions, each time from the last half of them.
    """
    _check_kind(model)
    limit = model.inputs[0].shape[0]
    if sliding and len(prompt) >= limit:
        prompt = prompt[-_half(limit) :]
    rows, single = _rows_of(model, prompt, 0 if sliding else length)
    if not single:
        raise UsageError("stream", got=f"{len(rows)} prompts", need="one prompt", fix="generate takes several")
    ends, choice = _stops(model, stop), TokenChoice(temperature, top_k, top_p, seed, min_p)
    _check_reading(model, cache=cache)
    return _slide(model, rows[0], length, choice, ends, cache=cache)


def _slide(
    model: TokenModel, row: list[int], length: int, choice: TokenChoice, stop: frozenset[int], *, cache: bool
) -> Iterator[int]:
    limit = model.inputs[0].shape[0]
    generators = [choice.generator(0)]
    while length:
        row = row if len(row) < limit else row[-_half(limit) :]
        part = min(length, limit - len(row))
        length -= part
        for (token,) in _grow(_reader(model, 1, [row], part, cache=cache), [row], part, choice, stop, generators):
            row = [*row, cast("int", token)]
            yield row[-1]
            part -= 1
        if part:
            return


def _half(limit: int) -> int:
    return max(limit // 2, 1)


def _reader(model: TokenModel, count: int, rows: Sequence[Sequence[int]], length: int, *, cache: bool) -> Reader:
    _check_reading(model, cache=cache)
    if isinstance(model, FrozenGeneration) or (cache and not model.cache_obstacle()):
        # The scores behind a row come of reading its last token.
        common = min(alike(*rows), min(map(len, rows)) - 1)
        return CachedReader(model, count, max(map(len, rows)) + length, common)
    return RereadingReader(model)


def _check_reading(model: TokenModel, *, cache: bool) -> None:
    """UsageError where a model can neither keep what it read nor read other numbers of tokens."""
    why = model.cache_obstacle() if cache else "none is wanted"
    if why and isinstance(model, FrozenGeneration):
        raise UsageError("generate", got="a frozen generation without a cache", need="cache=True, or the model itself")
    if why and not any(model.open):
        got = f"a model of exactly {model.inputs[0].shape[0]} tokens, without a cache ({why})"
        raise UsageError("generate", got=got, need="any number of tokens", fix="Model(layer, (UpTo(n),), …)")


def _grow(
    reader: Reader,
    rows: Sequence[Sequence[int]],
    length: int,
    choice: TokenChoice,
    stop: frozenset[int],
    generators: Sequence[np.random.Generator],
) -> Iterator[tuple[int | None, ...]]:
    """The next token of each row, None behind its end, until all rows are at theirs."""
    going = [True] * len(rows)
    scores = reader.read(rows)
    for step in range(length):
        tokens: list[int] = []
        for row, generator in enumerate(generators):
            tokens.append(choice.pick(scores[row], generator) if going[row] else 0)
            going[row] = going[row] and tokens[row] not in stop
        if not any(going):
            return
        yield tuple(token if alive else None for token, alive in zip(tokens, going, strict=True))
        if step < length - 1:
            scores = reader.follow(tokens)


def _search(
    reader: Reader, prompts: Sequence[Sequence[int]], length: int, beams: int, stop: frozenset[int]
) -> list[list[int]]:
    """The best continuation of each prompt: sum of log p, divided by how many tokens it has, its stop counted."""
    count = len(prompts)
    done: list[list[tuple[float, list[int]]]] = [[] for _ in prompts]
    rows: list[list[int]] = [[] for _ in range(count * beams)]
    # At first all beams of a prompt are the same: one of them counts.
    totals = np.where(np.arange(count * beams) % beams == 0, 0.0, -np.inf)
    scores = reader.read([list(prompt) for prompt in prompts for _ in range(beams)])
    for step in range(length):
        logs = totals[:, None] + log_softmax_of(scores)
        if np.isnan(logs).any():
            TokenChoice().pick(scores[int(np.isnan(logs).any(1).argmax())], np.random.default_rng(0))
        sources, tokens = [], []
        for prompt in range(count):
            first = prompt * beams
            here = logs[first : first + beams].reshape(-1)
            best = np.argsort(-here, kind="stable")[: beams * (1 + len(stop))]
            kept = 0
            for place in best:
                source, token = first + int(place) // logs.shape[1], int(place) % logs.shape[1]
                if token in stop:
                    done[prompt].append((float(here[place]) / (step + 1), rows[source]))
                elif kept < beams:
                    sources.append(source)
                    tokens.append(token)
                    kept += 1
        if not sources:
            # Every token is one of `stop`.
            rows = []
            break
        totals = logs[sources, tokens]
        rows = [[*rows[source], token] for source, token in zip(sources, tokens, strict=True)]
        if step < length - 1:
            reader.reorder(sources)
            scores = reader.follow(tokens)
    for place, row in enumerate(rows):
        done[place // beams].append((float(totals[place]) / length, row))
    return [max(candidates, key=lambda pair: pair[0])[1] for candidates in done]


# ---- checks


def _rows_of(
    model: TokenModel, prompt: Sequence[Any] | NDArray[np.integer], length: int
) -> tuple[list[list[int]], bool]:
    """Prompts as lists of tokens, and whether there was one alone."""
    _check_kind(model)
    nested = [part for part in prompt if isinstance(part, Sequence | np.ndarray)]
    single = not nested and len(prompt) > 0
    rows = [prompt] if single else list(prompt)
    if not rows:
        raise DataError("generate", got="an empty prompt", need="at least one token")
    if nested and len(nested) < len(rows):
        raise ArgumentError("generate", got="tokens beside lists of tokens", need="one prompt, or several")
    checked_rows = [_tokens_of(model, row, place) for place, row in enumerate(rows)]
    limit, longest = model.inputs[0].shape[0], max(map(len, checked_rows))
    if longest + length > limit:
        got = f"a prompt of {longest} tokens and {length} more"
        fix = f"length={limit - longest}" if longest < limit else "a shorter prompt"
        raise DataError("generate", got=got, need=f"at most {limit} positions", fix=fix)
    return checked_rows, single


def _check_kind(model: TokenModel) -> None:
    """UsageError unless the model takes tokens and gives scores for each."""
    fits = len(model.inputs) == len(model.outputs) == 1 and len(model.inputs[0].shape) == 1
    fits = fits and model.inputs[0].dtype.kind == "int" and len(model.outputs[0].shape) == 2
    if not (fits and model.outputs[0].shape[0] == model.inputs[0].shape[0]):
        got = f"a model of {', '.join(map(str, model.inputs))} to {', '.join(map(str, model.outputs))}"
        raise UsageError("generate", got=got, need="integers [steps] to scores [steps, vocabulary]")


def _tokens_of(model: TokenModel, row: Tokens, place: int) -> list[int]:
    vocabulary = model.outputs[0].shape[-1]
    if len(row) == 0:
        raise DataError("generate", got=f"an empty prompt {place}", need="at least one token")
    for token in row:
        if isinstance(token, bool) or not isinstance(token, INTEGERS):
            raise ArgumentError("generate", got=f"{shown(token)} in prompt {place}", need="integers")
        if not 0 <= token < vocabulary:
            raise DataError("generate", got=f"token {token} in prompt {place}", need=f"0 to {vocabulary - 1}")
    return [int(token) for token in row]


def _stops(model: TokenModel, stop: Iterable[int]) -> frozenset[int]:
    stops = tuple(stop)
    return frozenset(_tokens_of(model, stops, 0)) if stops else frozenset()
