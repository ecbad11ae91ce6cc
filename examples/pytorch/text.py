"""A GPT over the characters of a text, written out, and what it writes. Run: python examples/pytorch/text.py FILE"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import nnc
from nnc import nn, optim


class GPT(nn.Module):
    """Tokens [batch, steps] to scores [batch, steps, vocabulary]."""

    def __init__(self, vocabulary: int, steps: int, features: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, features), nn.Embedding(steps, features)
        self.blocks = [nn.TransformerBlock(heads, causal=True) for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(), nn.Linear(features, vocabulary)

    def forward(self, tokens: nnc.Array) -> nnc.Array:
        x = self.tokens(tokens) + self.places(nnc.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        scores: nnc.Array = self.head(self.norm(x))
        return scores


def main(path: Path | str, steps: int = 64, features: int = 128, layers: int = 4, updates: int = 500) -> float:
    """Nats per character of the last updates."""
    text = Path(path).read_text(encoding="utf-8")
    characters = sorted(set(text))
    codes = np.array([characters.index(one) for one in text], np.int32)
    net, loss_fn = GPT(len(characters), steps, features, layers, heads=4), nn.CrossEntropyLoss()
    optimizer = optim.AdamW(net.parameters(), lr=3e-3)

    @nnc.compile
    def train(x: nnc.Array, y: nnc.Array) -> nnc.Array:
        optimizer.zero_grad()
        loss = loss_fn(net(x).reshape(-1, len(characters)), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    random, losses = np.random.default_rng(0), list[float]()
    for _ in range(updates):
        rows = codes[random.integers(0, len(codes) - steps, 16)[:, None] + np.arange(steps + 1)]
        losses.append(train(nnc.array(rows[:, :-1]), nnc.array(rows[:, 1:])).item())
    net.eval()
    said: list[int] = codes[:steps].tolist()
    for _ in range(steps):
        with nnc.no_grad():
            scores = net(np.array([said[-steps:]], np.int32))[0, -1] / 0.7
        said.append(nnc.random.categorical(scores).item())
    print("".join(characters[code] for code in said[steps:]))
    mean: float = sum(losses[-10:]) / 10
    print(f"{mean:.2f} nats per character; guessing {math.log(len(characters)):.2f}")
    return mean


if __name__ == "__main__":
    main(sys.argv[1])
