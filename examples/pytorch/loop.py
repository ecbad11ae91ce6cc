"""A training loop of one's own: sums of gradients, clipping, a schedule, frozen parts, a mean of weights over time.

Run: python examples/pytorch/loop.py
"""

from __future__ import annotations

import nnc
from nnc import nn, optim
from nnc.nn.data import Batches, load


def main(epochs: int = 8) -> float:
    """The accuracy of the mean weights."""
    digits = load("digits")
    net = nn.Sequential(nn.Flatten(), body=nn.Linear(64, 64), relu=nn.ReLU(), head=nn.Linear(64, 10))
    batches = Batches(digits.train, 32, seed=0, drop_last=True)
    schedule = nn.Warmup(10, nn.Cosine(1e-2, epochs * (len(batches) // 2)))
    optimizer, loss_fn, updates = optim.AdamW(net.parameters(), lr=1e-2), nn.CrossEntropyLoss(), 0
    mean: dict[str, nnc.Array] = {path: nnc.array(weight) for path, weight in net.state_dict().items()}
    for epoch in range(epochs):
        net[1].requires_grad_(epoch > 0)  # The body is frozen for one epoch.
        losses = list[float]()
        for number, batch in enumerate(batches):
            loss = loss_fn(net(batch.inputs), batch.labels)
            loss.backward()
            losses.append(loss.item())
            if number % 2:
                gradients = [(p, p.grad) for p in net.parameters() if p.grad is not None]
                size = nnc.linalg.norm(nnc.stack([nnc.linalg.norm(gradient) for _, gradient in gradients]))
                for p, gradient in gradients:
                    p.grad = gradient * nnc.minimum(1.0, 1.0 / size)
                updates += 1
                optimizer.lr = schedule.rate(updates)
                optimizer.step()
                optimizer.zero_grad()
                with nnc.no_grad():
                    mean = {path: nnc.lerp(mean.get(path, p), p, 0.05) for path, p in net.named_parameters()}
        print(f"epoch {epoch + 1}, loss {sum(losses) / len(losses):.3f}")
    net.load_state_dict({path: weight.numpy() for path, weight in mean.items()})
    score = nnc.mean(net.eval()(digits.test.inputs).argmax(1) == nnc.tensor(digits.test.labels)).item()
    print(f"accuracy of the mean weights {score:.3f} after {updates} updates")
    return float(score)


if __name__ == "__main__":
    main()
