"""Greedy tokens of a LLaMA-like GGUF file beside a forward pass in f64 of its dequantized weights.

    python benchmarks/greedy_tokens.py model.gguf [--tokens 200] [--cache f32] [--prompt TEXT]

The model writes the tokens; NumPy then reads all of them at once in f64, which shares no operator with the model, and
says what it finds likeliest behind each. While they agree it is the text that f64 would have written itself. A line for
each token that is another, with the margin: by how much f64 prefers its own score. Ends with 1 if one is 1e-3 or more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import nnc
from nnc.core.values import blocks
from nnc.language.gguf import GgufFile, read_gguf

MARGIN = 1e-3
Values = NDArray[np.float64]


class Forward:
    """Scores of all tokens of a text, layer by layer, so that one layer is in memory in f64."""

    def __init__(self, file: GgufFile) -> None:
        self.file, self.name = file, file.text("general.architecture")
        if self.name != "llama":
            raise SystemExit(f"{file.path}: got {self.name}; need llama")
        self.layers, self.heads = self.integer("block_count"), self.integer("attention.head_count")
        self.groups = self.integer("attention.head_count_kv", self.heads)
        self.epsilon = file.number("llama.attention.layer_norm_rms_epsilon", 1e-5)
        self.base = file.number("llama.rope.freq_base", 10_000.0)

    def integer(self, key: str, default: int | None = None) -> int:
        """A number of the file."""
        return self.file.integer(f"llama.{key}", default)

    def tensor(self, name: str) -> Values:
        """Rows in f64."""
        row, data = self.file.tensors[f"{name}.weight"], self.file.bytes(f"{name}.weight")
        if row.kind.name in blocks.FORMATS:
            return blocks.dequantize(data, row.kind.name).astype(np.float64)
        kinds = {"f32": np.float32, "f16": np.float16}
        return np.asarray(data.view(kinds[row.kind.name]), np.float64).reshape(row.shape)

    def norm(self, x: Values, name: str) -> Values:
        """x / sqrt(mean x² + ε) · weight"""
        return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.tensor(name))

    def turned(self, x: Values) -> Values:
        """Pairs of neighbours of x[tokens, heads, width] turned by position · base^(-2 i / width)."""
        tokens, _, width = x.shape
        angles = np.arange(tokens)[:, None] * self.base ** (-np.arange(0, width, 2) / width)
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
        even, odd = x[..., ::2], x[..., 1::2]
        return np.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).reshape(x.shape)

    def attention(self, x: Values, block: str) -> Values:
        """Causal attention of groups of heads."""
        tokens, features = x.shape
        width = features // self.heads
        q, k, v = (
            (x @ self.tensor(f"{block}.attn_{each}").T).reshape(tokens, heads, width)
            for each, heads in (("q", self.heads), ("k", self.groups), ("v", self.groups))
        )
        q, k = self.turned(q), self.turned(k)
        k, v = (np.repeat(each, self.heads // self.groups, 1) for each in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(width)
        scores[:, np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hij,jhd->ihd", powers / powers.sum(-1, keepdims=True), v)
        return np.asarray(mixed.reshape(tokens, features) @ self.tensor(f"{block}.attn_output").T)

    def scores(self, tokens: list[int]) -> Values:
        """scores[tokens, vocabulary]"""
        table = self.tensor("token_embd")
        x = table[tokens]
        for layer in range(self.layers):
            block = f"blk.{layer}"
            x = x + self.attention(self.norm(x, f"{block}.attn_norm"), block)
            y = self.norm(x, f"{block}.ffn_norm")
            gate, up = (y @ self.tensor(f"{block}.ffn_{each}").T for each in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.tensor(f"{block}.ffn_down").T
        head = self.tensor("output") if "output.weight" in self.file.tensors else table
        return self.norm(x, "output_norm") @ head.T


def main() -> int:
    """Lines of differences, and a sum of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--cache", default="f32")
    parser.add_argument("--prompt", default="The history of the world is long and full of")
    options = parser.parse_args()
    model = nnc.language.load(options.file, context=1024, cache=options.cache)
    row = model.tokens_of(options.prompt)
    first = len(row)
    written = nnc.nn.generate(model.tokens, [row], options.tokens)[0]
    scores = Forward(read_gguf(options.file)).scores([*row, *written])[first - 1 : -1]
    worst, others = 0.0, 0
    for place, (token, own) in enumerate(zip(written, scores, strict=True)):
        margin = float(own.max() - own[token])
        if int(own.argmax()) != token:
            others += 1
            print(f"token {place}: {token}, f64 {int(own.argmax())} by {margin:.2e}")
        worst = max(worst, margin)
    above = np.sort(scores, -1)[:, -1] - np.sort(scores, -1)[:, -2]
    print(f"{len(written)} tokens, {others} others than f64; smallest margin of f64 {above.min():.2e}")
    return int(worst >= MARGIN)


if __name__ == "__main__":
    sys.exit(main())
