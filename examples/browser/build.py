"""A folder for any static server: a page that tells digits that are drawn in it, and learns those that it gets wrong.

python -m examples.browser.build FOLDER && python -m http.server --directory FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from nnc import export, nn
from nnc.nn.data import load


def build(folder: Path, epochs: int = 20) -> nn.Model:
    """Train on the digits for a while, and write what tells and what learns, with the page; the model."""
    layers = nn.Sequential(nn.Flatten(), nn.Dense(64), nn.ReLU(), nn.Dense(10))
    model = nn.Model(layers, (8, 8, 1), optimizer=nn.SGD(0.05))
    model.fit(load("digits").train, batch_size=64, epochs=epochs)
    export.library(model, "tell", target="browser", function="apply").write(folder)
    export.library(model, "learn", target="browser", function="train").write(folder)
    (folder / "index.html").write_bytes((Path(__file__).parent / "index.html").read_bytes())
    return model


if __name__ == "__main__":
    build(Path(sys.argv[1]))
