"""A table in a CSV file: classes where the target is a text, else numbers.

Run: python examples/tables.py FILE COLUMN
"""

from __future__ import annotations

import sys
from pathlib import Path

from nnc import nn
from nnc.nn.data import read_table


def main(path: Path | str, target: str, epochs: int = 100) -> float:
    """Accuracy, or r2, on a fifth of the rows."""
    table, scheme = read_table(path, target)
    train, test = table.split(0.8)
    classes = len(scheme.classes)
    layer = nn.Sequential(nn.Dense(64), nn.ReLU(), nn.Dropout(0.1), nn.Dense(classes or 1))
    loss = nn.SoftmaxCrossEntropy() if classes else nn.Huber()
    model = nn.Model(layer, (scheme.features,), loss=loss, optimizer=nn.AdamW(1e-2))
    figure = "accuracy" if classes else "r2"
    early = nn.EarlyStopping(patience=20)
    history = model.fit(train, epochs=epochs, validation_data=test, metrics=[figure], callbacks=[early])
    found = model.evaluate(test.inputs, test.labels, metrics=[figure]).metrics[figure]
    print(f"{history.reason or 'all epochs'}; {figure} {found:.3f} on {len(test)} rows")
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
