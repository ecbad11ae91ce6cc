"""A training loop of one's own: sums of gradients, clipping, a schedule, frozen parts, a mean of weights over time.

Run: python examples/loop.py
"""

from __future__ import annotations

import copy

from nnc import nn
from nnc.nn.data import Batches, load


def main(epochs: int = 8) -> float:
    """The accuracy of the mean weights."""
    digits = load("digits")
    layer = nn.Sequential(nn.Flatten(), body=nn.Dense(64), relu=nn.ReLU(), drop=nn.Dropout(0.1), head=nn.Dense(10))
    batches = Batches(digits.train, 32, seed=0, drop_last=True)
    updates = epochs * (len(batches) // 2)
    schedule = nn.Warmup(10, nn.Cosine(1e-2, updates))
    optimizer = nn.PerParameter(nn.AdamW(schedule), (("*.bias", nn.AdamW(schedule, decay=0.0)),))
    model = nn.Model(layer, (8, 8, 1), optimizer=optimizer.without("body.*"), clip_norm=1.0, nan_guard=True)
    mean = copy.copy(model)
    loss = 0.0
    for epoch in range(epochs):
        if epoch == 1:
            model.optimizer = optimizer  # The body is frozen for one epoch.
        for number, batch in enumerate(batches):
            loss, _ = model.backward(batch.inputs, batch.labels)
            if number % 2:
                model.apply_gradients()
                mean.zip_map(lambda old, new: 0.95 * old + 0.05 * new, model)
        print(f"epoch {epoch + 1}, loss {loss:.3f}")
    score = mean.evaluate(digits.test.inputs, digits.test.labels).score
    print(f"accuracy of the mean weights {score:.3f} after {model.updates} updates")
    return score


if __name__ == "__main__":
    main()
