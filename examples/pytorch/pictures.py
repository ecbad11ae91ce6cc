"""A convolutional network on a folder of PNG files for each class. Run: python examples/pytorch/pictures.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

import nnc
from nnc import nn, optim
from nnc.nn.data import Augmentation, Crop, DataFrame, Flip, ImageFolder


def block(width: int) -> nn.Sequential:
    """A convolution and what follows it, half as large as its input."""
    return nn.Sequential(nn.Convolution(width, 3), nn.GroupNorm(8), nn.ReLU(), nn.MaxPool(2))


def main(path: Path | str, size: int = 32, epochs: int = 5) -> float:
    """The accuracy on every fifth image."""
    folder = ImageFolder(path, (size, size))
    test = DataFrame.from_items(folder.part(range(0, len(folder), 5))).examples("image", "label").in_memory()
    train = DataFrame.from_items(folder.part([place for place in range(len(folder)) if place % 5]))
    train = train.map("image", Augmentation(Flip(), Crop(2)), random=True).shuffle(256, seed=0).batch(16).prefetch(2)
    net = nn.Sequential(block(16), block(32), nn.GlobalAveragePool(), nn.Dense(len(folder.classes)))
    loss_fn, optimizer = nn.CrossEntropyLoss(), optim.AdamW(net.parameters(), lr=1e-2)

    @nnc.compile
    def step(images: nnc.Array, labels: nnc.Array) -> nnc.Array:
        optimizer.zero_grad()
        loss = loss_fn(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(epochs):
        losses = [step(batch["image"], batch["label"]).item() for batch in train]
        print(f"epoch {epoch + 1}, loss {sum(losses) / len(losses):.3f}")
    with nnc.no_grad():
        right = nnc.mean(net.eval()(test.inputs).argmax(1) == nnc.tensor(test.labels)).item()
    print(f"accuracy {right:.3f}")
    return float(right)


if __name__ == "__main__":
    main(sys.argv[1])
