"""A table in a CSV file: classes where the target is a text, else numbers, by a loop of one's own.

Run: python examples/pytorch/tables.py FILE COLUMN
"""

from __future__ import annotations

import sys
from pathlib import Path

import nnc
from nnc import nn, optim
from nnc.nn.data import Batches, read_table


def main(path: Path | str, target: str, epochs: int = 100) -> float:
    """Accuracy, or r2, on a fifth of the rows."""
    table, scheme = read_table(path, target)
    train, test = table.split(0.8)
    classes = len(scheme.classes)
    net = nn.Sequential(nn.Linear(scheme.features, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, classes or 1))
    loss_fn = nn.CrossEntropyLoss() if classes else nn.Huber()
    optimizer = optim.AdamW(net.parameters(), lr=1e-2)

    @nnc.compile
    def step(x: nnc.Array, y: nnc.Array) -> None:
        optimizer.zero_grad()
        loss_fn(net(x), y).backward()
        optimizer.step()

    batches = Batches(train, 32, seed=0, drop_last=True)
    for batch in (batch for _ in range(epochs) for batch in batches):
        step(nnc.array(batch.inputs), nnc.array(batch.labels))
    net.eval()
    with nnc.no_grad():
        outputs, truth = net(test.inputs), nnc.tensor(test.labels)
    right = nnc.mean(outputs.argmax(1) == truth) if classes else 1 - ((outputs - truth) ** 2).mean() / truth.var()
    print(f"{'accuracy' if classes else 'r2'} {right.item():.3f} on {len(test)} rows")
    return float(right.item())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
