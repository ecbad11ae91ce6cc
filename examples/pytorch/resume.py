"""Training that goes on behind a break to the very same bits.

Run: python examples/pytorch/resume.py, Ctrl-C, and again
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import nnc
from nnc import nn, optim
from nnc.nn.data import load


def main(path: Path | str, epochs: int = 20, last: int | None = None) -> nn.Sequential:
    """The trained network; `last` breaks off behind that epoch."""
    train, test = load("digits").train, load("digits").test
    nnc.seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer, first = optim.Adam(net.parameters(), lr=3e-3), 0
    if Path(path).exists():
        saved = nnc.load(path)
        net.load_state_dict({name[4:]: value for name, value in saved.items() if name.startswith("net.")})
        optimizer.load_state_dict({name[6:]: value for name, value in saved.items() if name.startswith("optim.")})
        first = int(saved["epoch"])
        print(f"going on behind epoch {first}")
    for epoch in range(first, epochs if last is None else last):
        for rows in np.random.default_rng(epoch).permutation(len(train))[:1408].reshape(-1, 32):
            optimizer.zero_grad()
            nn.CrossEntropyLoss()(net(train.inputs[rows]), train.labels[rows]).backward()
            optimizer.step()
        state: dict[str, object] = {f"net.{name}": value for name, value in net.state_dict().items()}
        state |= {f"optim.{name}": value for name, value in optimizer.state_dict().items()}
        nnc.save(path, state | {"epoch": np.array(epoch + 1)})
    print(f"accuracy {nnc.mean(net(test.inputs).argmax(1) == nnc.tensor(test.labels)).item():.3f}")
    return net


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "resume.safetensors")
