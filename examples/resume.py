"""Training that goes on behind a break to the very same bits. Run: python examples/resume.py, Ctrl-C, and again"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from nnc import nn
from nnc.nn.data import Batches, load


def main(path: Path | str, epochs: int = 20, stop: Callable[[], bool] = lambda: False) -> nn.Model:
    """The trained model."""
    digits = load("digits")
    layer = nn.Sequential(nn.Flatten(), nn.Dense(64), nn.ReLU(), nn.Dropout(0.2), nn.Dense(10))
    model = nn.Model(layer, (8, 8, 1), optimizer=nn.Adam(nn.Cosine(3e-3, 2000)))
    batches = Batches(digits.train, 32, seed=0)
    if Path(path).exists():
        batches.restore(nn.load_checkpoint(path, model).batches)
        print(f"going on behind update {model.updates}")
    model.fit(batches, epochs=epochs - batches.state().epoch, callbacks=[nn.LastCheckpoint(path)], stop=stop)
    print(f"{model.updates} updates, accuracy {model.evaluate(digits.test.inputs, digits.test.labels).score:.3f}")
    return model


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "resume.safetensors")
