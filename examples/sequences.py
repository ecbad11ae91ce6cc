"""Sequences of many lengths: an LSTM with a mask says whether a sum is above zero. Run: python examples/sequences.py"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn
from nnc.nn.data import DataFrame


def main(count: int = 600, epochs: int = 8, longest: int = 12) -> float:
    """The accuracy of the last epoch."""
    random = np.random.default_rng(0)
    series = [random.standard_normal((random.integers(4, longest + 1), 1)).astype(np.float32) for _ in range(count)]
    frame = DataFrame({"series": series, "rises": np.array([one.sum() > 0 for one in series], np.int32)})
    frame = frame.shuffle(count, seed=0).batch(32, pad={"series": 0.0}, by_length="series")
    x, mask = nn.Input((nn.UpTo(longest), 1)), nn.Input((nn.UpTo(longest),), nnc.bool_)
    memory = nn.LSTM(24, return_sequences=False)(x, mask)
    model = nn.Model(nn.Functional([x, mask], nn.Dense(2)(memory)), optimizer=nn.Adam(1e-2))
    history = model.fit(frame.examples(("series", "series_mask"), "rises"), epochs=epochs)
    print(history)
    return history["score"][-1]


if __name__ == "__main__":
    main()
