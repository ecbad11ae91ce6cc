"""Steps of training on a device and on the host, from one beginning: the same losses, and what a step takes.

python -m tests.conformance.device_training cuda
"""

from __future__ import annotations

import sys
import time

import numpy as np

import nnc
from nnc.ops.convolutions.window import window_of

STEPS, BATCH, RATE = 20, 256, 0.2
WINDOW, POOLED = window_of((3, 3), padding=1), window_of((2, 2), stride=2)


def losses(device: str) -> tuple[list[float], float]:
    """Of each step, and the median of their milliseconds: a convolution, a pool and two products on images of 8 x 8."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 10, BATCH)
    images = (rng.random((10, 8, 8, 1))[label] + 0.3 * rng.random((BATCH, 8, 8, 1))).astype(np.float32)
    x, one_hot = (nnc.tensor(values).to(device) for values in (images, np.eye(10, dtype=np.float32)[label]))
    shapes = ((3, 3, 1, 16), (256, 64), (64, 10))
    weights = [nnc.variable(rng.normal(0, 0.1, shape).astype(np.float32)).to(device) for shape in shapes]

    def loss(filters: nnc.Variable, hidden: nnc.Variable, last: nnc.Variable) -> nnc.Variable:
        y = nnc.ops.max_pool(nnc.ops.relu(nnc.ops.convolution(x, filters, window=WINDOW)), kernel=(2, 2), window=POOLED)
        logits = nnc.tanh(y.reshape(BATCH, 256) @ hidden) @ last
        return -(nnc.log_softmax(logits) * one_hot).sum() / BATCH

    step, found, seconds = nnc.value_and_grad(loss, argnums=(0, 1, 2)), list[float](), list[float]()
    for _ in range(STEPS):
        began = time.perf_counter()
        value, gradients = step(*weights)
        weights = [weight - RATE * slope for weight, slope in zip(weights, gradients, strict=True)]
        found.append(float(value))
        seconds.append(time.perf_counter() - began)
    return found, 1e3 * float(np.median(seconds))


def main(device: str) -> int:
    """Print both, and say by the status whether they agree."""
    (host, slow), (there, fast) = losses("cpu"), losses(device)
    difference = float(np.abs(np.subtract(host, there)).max())
    print(f"loss {there[0]:.4f} to {there[-1]:.4f} on {device}, {host[0]:.4f} to {host[-1]:.4f} on the host")
    print(f"largest difference {difference:.2e}; a step {fast:.2f} ms there, {slow:.2f} ms on the host")
    return 0 if difference < 1e-3 and there[-1] < there[0] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
