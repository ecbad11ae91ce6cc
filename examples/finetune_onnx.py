"""Another head on an ONNX file, trained within a limit, and saved. Run: python examples/finetune_onnx.py FILE.onnx

The file is the classifier of text angles of rapidocr-onnxruntime, which has two classes; it learns digits.
"""

from __future__ import annotations

import sys

import numpy as np

from nnc import nn
from nnc.nn.data import load
from nnc.onnx import OnnxLayer, read, save

LIMIT = 16_000_000


def images(x: np.ndarray) -> np.ndarray:
    """[n, 3, 48, 24] in -1..1 of [n, 8, 8, 1] in 0..1: what the file expects, as large as its strides need."""
    large = x.repeat(6, 1).repeat(3, 2) * 2 - 1
    return np.ascontiguousarray(np.broadcast_to(large, (len(x), 48, 24, 3)).transpose(0, 3, 1, 2))


def finetune(path: str, target: str, epochs: int = 20) -> float:
    """The accuracy on the test images; the model is at `target` then."""
    digits = load("digits")
    body = OnnxLayer(read(path), output="pool2d_10.tmp_0")
    layers = nn.Sequential(body, nn.Flatten(), nn.Dense(10))
    optimizer = nn.Adam(nn.Cosine(0.003, epochs * 45), decay=0.05, decoupled=True)
    model = nn.Model(layers, (3, 48, 24), optimizer=optimizer, memory_limit=LIMIT)
    print(f"known before the first step: {model.memory(32).step}")
    model.fit(images(digits.train.inputs), digits.train.labels, batch_size=32, epochs=epochs)
    save(model, target)
    return model.evaluate(images(digits.test.inputs), digits.test.labels).score


if __name__ == "__main__":
    print(f"accuracy {finetune(sys.argv[1], 'digits.onnx'):.3f}, saved as digits.onnx")
