"""A character GPT against a 5-gram model, in bits per character of files that neither has seen.

    scripts/python benchmarks/text.py [--minutes 12] [--characters 2000000] [--features 128] [--layers 4] [--steps 64]

Text is the source of Python's own library: every tenth file is held out. Both learn from the same characters. The
5-gram model is interpolated by Witten and Bell's rule, down to one over the size of the alphabet:

    p(c | h) = (n(h, c) + d(h) · p(c | h without its first)) / (n(h) + d(h)),  d(h) = different characters behind h

One line of JSON: bits per character of both, and the minutes that training took, compiling included; those of all
processors together tell how much of the machine it had.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.nn.zoo import GPT

ORDER = 5
HELD_OUT_EVERY = 10
TEST_CHARACTERS = 200_000
BATCH = 32
RATE = 3e-3
WARM_UP = 20
Codes = NDArray[np.int64]


def texts(characters: int) -> tuple[str, str]:
    """To learn from, and to test on: files of the standard library in the order of their names."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in folder.glob("*.py") if path.is_file())
    parts: tuple[list[str], list[str]] = ([], [])
    for place, path in enumerate(files):
        parts[place % HELD_OUT_EVERY == 0].append(path.read_text(encoding="utf-8", errors="replace"))
    train, test = ("".join(part) for part in parts)
    return train[:characters], test[:TEST_CHARACTERS]


def coded(train: str, test: str) -> tuple[Codes, Codes, int]:
    """Characters as numbers; one number for all that training lacks."""
    alphabet = {character: place for place, character in enumerate(sorted(set(train)), 1)}
    codes = (np.array([alphabet.get(one, 0) for one in text], np.int64) for text in (train, test))
    return (*codes, len(alphabet) + 1)


class NGrams:
    """Counts of all contexts up to `order` - 1 characters, and of what follows them."""

    def __init__(self, train: Codes, size: int, order: int = ORDER) -> None:
        self.size, self.order = size, order
        self.tables = [self._table(train, length) for length in range(order)]

    def _table(self, train: Codes, length: int) -> tuple[Codes, Codes, Codes, Codes, Codes]:
        """Pairs (context, character) with their counts; contexts with their counts and how many characters follow."""
        pairs, counts = np.unique(self._keys(train, length), return_counts=True)
        contexts, starts = np.unique(pairs // self.size, return_index=True)
        return pairs, counts, contexts, np.add.reduceat(counts, starts), np.diff([*starts, len(pairs)])

    def _keys(self, codes: Codes, length: int) -> Codes:
        """Each character behind its context of `length` characters as one number, from the ORDER-th character on."""
        keys = np.zeros(len(codes) - self.order + 1, np.int64)
        for back in range(length, -1, -1):
            last = self.order - 1 - back
            keys = keys * self.size + codes[last : len(codes) - back]
        return keys

    def bits(self, test: Codes) -> float:
        """-log2 p of a character, on average."""
        p = np.full(len(test) - self.order + 1, 1.0 / self.size)
        for length, (pairs, counts, contexts, totals, kinds) in enumerate(self.tables):
            keys = self._keys(test, length)
            seen, total = _looked_up(pairs, counts, keys), _looked_up(contexts, totals, keys // self.size)
            kind = _looked_up(contexts, kinds, keys // self.size)
            p = np.where(total > 0, (seen + kind * p) / np.maximum(total + kind, 1), p)
        return float(-np.log2(p).mean())


def _looked_up(keys: Codes, values: Codes, wanted: Codes) -> Codes:
    """The value of each wanted key; 0 for those that are not there."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


def windows(codes: Codes, steps: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rows of `steps` characters, and of those that follow each."""
    count = (len(codes) - 1) // steps
    rows = codes[: count * steps + 1].astype(np.int32)
    return rows[:-1].reshape(count, steps), rows[1:].reshape(count, steps)


def trained(model: nn.Model, train: Codes, steps: int, minutes: float) -> int:
    """Updates for so long, the rate falling to its end then; how many there were."""
    began = perf_counter()
    generator = np.random.default_rng(0)

    def batch() -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        places = generator.integers(0, len(train) - steps, BATCH)[:, None] + np.arange(steps + 1)
        rows = train[places].astype(np.int32)
        return rows[:, :-1], rows[:, 1:]

    for update in range(WARM_UP):
        model.optimizer = model.optimizer.at_rate(RATE * (update + 1) / WARM_UP)
        model.train_on_batch(*batch())
        if not update:
            compiled = perf_counter()
    while (spent := perf_counter() - began) < 60 * minutes:
        # The rate follows the clock, so that it is low at the end however fast the machine is.
        left = 1.0 - spent / (60 * minutes)
        model.optimizer = model.optimizer.at_rate(RATE * (0.02 + 0.98 * 0.5 * (1 - np.cos(np.pi * left))))
        loss, _ = model.train_on_batch(*batch())
        if model.updates % 500 == 0:
            speed = (model.updates - 1) * BATCH * steps / (perf_counter() - compiled)
            sys.stderr.write(f"{model.updates} updates, {spent / 60:.1f} min, loss {loss:.3f}, {speed:,.0f} chars/s\n")
    return model.updates


def main() -> None:
    """Both models on the same text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=12.0)
    for name, default in (("characters", 2_000_000), ("features", 128), ("layers", 4), ("steps", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    train, test, size = coded(*texts(asked.characters))
    grams = NGrams(train, size).bits(test)
    layer = GPT(size, asked.steps, asked.features, asked.layers, max(asked.features // 32, 1), bias=False)
    model = nn.Model(layer, (asked.steps,), input_dtype=I32, optimizer=nn.AdamW(RATE, decay=0.1), clip_norm=1.0)
    began, worked = perf_counter(), process_time()
    updates = trained(model, train, asked.steps, asked.minutes)
    minutes, processor = (perf_counter() - began) / 60, (process_time() - worked) / 60
    bits = model.evaluate(*windows(test, asked.steps), 64).loss / np.log(2.0)
    figures = {
        "bits_per_character": round(float(bits), 4),
        "bits_of_5_grams": round(grams, 4),
        "wins": bool(bits < grams),
        "minutes": round(minutes, 2),
        "processor_minutes": round(processor, 2),
        "updates": updates,
        "parameters": model.parameter_count(),
        "train_characters": len(train),
        "test_characters": len(test),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
