"""A convolutional network on a folder of PNG files for each class. Run: python examples/pictures.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

from nnc import nn
from nnc.nn.data import Augmentation, Crop, DataFrame, Flip, ImageFolder


def main(path: Path | str, size: int = 32, epochs: int = 5) -> float:
    """The accuracy on every fifth image."""
    folder = ImageFolder(path, (size, size))
    test = DataFrame.from_items(folder.part(range(0, len(folder), 5))).examples("image", "label").in_memory()
    train = DataFrame.from_items(folder.part([place for place in range(len(folder)) if place % 5]))
    train = train.map("image", Augmentation(Flip(), Crop(2)), random=True).shuffle(256, seed=0).batch(16).prefetch(2)
    layer = nn.Sequential(
        *(part for width in (16, 32) for part in (nn.Convolution(width), nn.GroupNorm(8), nn.ReLU(), nn.MaxPool(2))),
        nn.GlobalAveragePool(),
        nn.Dense(len(folder.classes)),
    )
    model = nn.Model(layer, (size, size, 3), optimizer=nn.AdamW(1e-2))
    history = model.fit(train.examples("image", "label"), epochs=epochs, validation_data=test)
    print(history)
    return history["val_score"][-1]


if __name__ == "__main__":
    main(sys.argv[1])
