"""A GPT over the characters of a text, and what it writes. Run: python examples/text.py FILE"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import nnc
from nnc import nn
from nnc.nn.data import Examples
from nnc.nn.zoo import GPT


def main(path: Path | str, steps: int = 64, features: int = 128, layers: int = 4, epochs: int = 1) -> float:
    """Nats per character on the last tenth of the text."""
    text = Path(path).read_text(encoding="utf-8")
    characters = sorted(set(text))
    tokens = np.array([characters.index(one) for one in text], np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, steps + 1)[:: steps // 4]
    train, test = Examples("text", windows[:, :-1], windows[:, 1:]).split(0.9, shuffle=False)
    gpt = GPT(len(characters), steps, features, layers, heads=4)
    model = nn.Model(gpt, (nn.UpTo(steps),), input_dtype=nnc.i32, optimizer=nn.AdamW(3e-3), clip_norm=1.0)
    history = model.fit(train, batch_size=16, epochs=epochs, validation_data=test, callbacks=[nn.ProgressBar()])
    said = nn.generate(model, tokens[:8], steps - 8, temperature=0.7, seed=0)
    print(text[:8] + "".join(characters[token] for token in said))
    print(f"{history['val_loss'][-1]:.2f} nats per character; guessing {math.log(len(characters)):.2f}")
    return history["val_loss"][-1]


if __name__ == "__main__":
    main(sys.argv[1])
