"""A GGUF file of random weights in blocks of 4 bits (Q4_K, the table of tokens in Q6_K), of 1.1 billion unless told.

    python benchmarks/random_language_model.py VOCABULARY.gguf OUTPUT.gguf [--features 2048 --layers 22 --heads 32]

Vocabulary and tokenizer are those of another file. Time does not follow weights, so this measures sizes for which no
file is at hand (`benchmarks/language.py OUTPUT.gguf --peer PYTHON`).
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.blocks import format_of
from nnc.language.gguf import TensorSource, read_gguf, write_gguf

# The factor of a block, by which weights are of about 0.02.
FACTORS = {"q4_k": 1e-4, "q6_k": 1.5e-5}
# Of bytes per block, where its factors lie in f16; the second is that of the minima, the mean of what it is taken from.
PLACES = {"q4_k": (0, 2), "q6_k": (208,)}
MEAN = 7.5


def blocks(kind: str, shape: tuple[int, int], seed: int) -> NDArray[np.uint8]:
    """Random bytes with factors that are numbers."""
    form = format_of(kind)
    rows = np.random.default_rng(seed).integers(0, 256, (shape[0], form.row_bytes(shape[1])), np.uint8)
    cells = rows.reshape(-1, form.row_bytes(256))
    for place, factor in zip(PLACES[kind], (FACTORS[kind], MEAN * FACTORS[kind]), strict=False):
        cells[:, place : place + 2] = np.frombuffer(np.float16(factor).tobytes(), np.uint8)
    return rows.reshape(-1)


def source(name: str, shape: tuple[int, int], kind: str, seed: int) -> TensorSource:
    """A matrix that is drawn when its turn comes."""
    return TensorSource(f"{name}.weight", shape, kind, partial(blocks, kind, shape, seed))


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("output", type=Path)
    for name, value in (("features", 2048), ("layers", 22), ("heads", 32), ("key-heads", 4), ("hidden", 5632)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    held = read_gguf(options.vocabulary).metadata
    values = {name: value for name, value in held.items() if name.startswith("tokenizer.")}
    tokens = len(values["tokenizer.ggml.tokens"].value)  # type: ignore[arg-type]  # a list of texts
    features, keys = options.features, options.key_heads * options.features // options.heads
    numbers = {
        "embedding_length": features,
        "block_count": options.layers,
        "attention.head_count": options.heads,
        "attention.head_count_kv": options.key_heads,
        "feed_forward_length": options.hidden,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "context_length": 2048,
        "rope.dimension_count": features // options.heads,
        "vocab_size": tokens,
    }
    matrices = {
        "attn_q": (features, features), "attn_k": (keys, features), "attn_v": (keys, features),
        "attn_output": (features, features), "ffn_gate": (options.hidden, features),
        "ffn_up": (options.hidden, features), "ffn_down": (features, options.hidden),
    }  # fmt: skip
    ones = np.ones(features, np.float32)
    tensors = [source("token_embd", (tokens, features), "q6_k", 0), TensorSource.of("output_norm.weight", ones)]
    for layer in range(options.layers):
        prefix = f"blk.{layer}"
        tensors += [TensorSource.of(f"{prefix}.{name}.weight", ones) for name in ("attn_norm", "ffn_norm")]
        tensors += [
            source(f"{prefix}.{name}", shape, "q4_k", 1 + layer * len(matrices) + place)
            for place, (name, shape) in enumerate(matrices.items())
        ]
    said = {"general.architecture": "llama", **{f"llama.{name}": value for name, value in numbers.items()}}
    write_gguf(options.output, {**said, **values}, tensors)


if __name__ == "__main__":
    main()
