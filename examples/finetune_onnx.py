"""Another head on an ONNX file, trained within a limit, and saved. Run: python examples/finetune_onnx.py FILE.onnx

The file is the classifier of text angles of rapidocr-onnxruntime, which has two classes; it learns digits.
"""

from __future__ import annotations

import sys

import numpy as np

from nnc import nn
from nnc.nn.data import load
from nnc.onnx import OnnxLayer, read, save

LIMIT, RATES = 16_000_000, (0.001, 0.003, 0.01)


def images(x: np.ndarray) -> np.ndarray:
    """[n, 3, 48, 24] in -1..1 of [n, 8, 8, 1] in 0..1: what the file expects, as large as its strides need."""
    large = x.repeat(6, 1).repeat(3, 2) * 2 - 1
    return np.ascontiguousarray(np.broadcast_to(large, (len(x), 48, 24, 3)).transpose(0, 3, 1, 2))


def trained(path: str, x: np.ndarray, y: np.ndarray, rate: float, epochs: int) -> nn.Model:
    """The file up to its last features with a head of ten classes, after so many times through the images."""
    body = OnnxLayer(read(path), output="pool2d_10.tmp_0")
    schedule = nn.Cosine(rate, epochs * -(-len(y) // 32))
    optimizer = nn.Adam(schedule, decay=0.05, decoupled=True)
    layers = nn.Sequential(body, nn.Flatten(), nn.Dense(10))
    model = nn.Model(layers, (3, 48, 24), optimizer=optimizer, memory_limit=LIMIT)
    print(f"rate {rate}, known before the first step: {model.memory(32).step}")
    model.fit(x, y, batch_size=32, epochs=epochs)
    return model


def finetune(path: str, target: str, epochs: int = 20) -> float:
    """The accuracy on test images, by which nothing is chosen: the rate is the best on a fifth of the others."""
    digits = load("digits")
    x, y = images(digits.train.inputs), digits.train.labels
    held = np.arange(len(y)) % 5 == 0
    scores = {r: trained(path, x[~held], y[~held], r, epochs // 3).evaluate(x[held], y[held]).score for r in RATES}
    model = trained(path, x, y, max(scores, key=scores.__getitem__), epochs)
    save(model, target)
    return model.evaluate(images(digits.test.inputs), digits.test.labels).score


if __name__ == "__main__":
    print(f"accuracy {finetune(sys.argv[1], 'digits.onnx'):.3f}, saved as digits.onnx")
