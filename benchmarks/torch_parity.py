"""Layers, losses, schedules and optimizers beside torch's: the largest relative difference of each row.

Run: python benchmarks/torch_parity.py   (needs torch, `pip install nnc[bench]`)
"""

from __future__ import annotations

import numpy as np
import torch

from nnc import nn
from nnc.core.values.dtype import F64
from nnc.dynamic import DynamicGraph

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((6, 4)), RANDOM.standard_normal((6, 4))
LABELS = RANDOM.integers(0, 4, 6).astype(np.int32)
SHARES = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
SIGNS = np.sign(Y)
F = torch.nn.functional
ACTIVATIONS = [
    (nn.ReLU(), torch.nn.ReLU()),
    (nn.LeakyReLU(0.2), torch.nn.LeakyReLU(0.2)),
    (nn.PReLU(), torch.nn.PReLU(dtype=torch.float64)),
    (nn.ELU(0.5), torch.nn.ELU(0.5)),
    (nn.SELU(), torch.nn.SELU()),
    (nn.GELU(), torch.nn.GELU()),
    (nn.GELUTanh(), torch.nn.GELU("tanh")),
    (nn.SiLU(), torch.nn.SiLU()),
    (nn.Softplus(), torch.nn.Softplus()),
    (nn.Mish(), torch.nn.Mish()),
    (nn.Hardswish(), torch.nn.Hardswish()),
    (nn.Hardsigmoid(), torch.nn.Hardsigmoid()),
    (nn.Softsign(), torch.nn.Softsign()),
    (nn.LogSoftmax(), torch.nn.LogSoftmax(-1)),
    (nn.Softmax(), torch.nn.Softmax(-1)),
    (nn.GLU(), torch.nn.GLU()),
]
LOSSES = [
    (nn.MeanSquaredError(), Y, F.mse_loss),
    (nn.MeanAbsoluteError(), Y, F.l1_loss),
    (nn.Huber(0.7), Y, lambda x, t: F.huber_loss(x, t, delta=0.7)),
    (nn.BinaryCrossEntropy(), SHARES, F.binary_cross_entropy_with_logits),
    (nn.PoissonLoss(), SHARES, F.poisson_nll_loss),
    (nn.KLDivergence(), SHARES, lambda x, t: F.kl_div(x.log_softmax(-1), t, reduction="batchmean")),
    (nn.CosineLoss(), Y, lambda x, t: F.cosine_embedding_loss(x, t, torch.ones(6))),
    (nn.SoftmaxCrossEntropy(), LABELS, lambda x, t: F.cross_entropy(x, t.long())),
    (nn.SmoothedCrossEntropy(0.1), LABELS, lambda x, t: F.cross_entropy(x, t.long(), label_smoothing=0.1)),
]
OPTIMIZERS = [
    (nn.SGD(0.1, decay=0.01), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    (nn.SGD(0.1, nesterov=True), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (nn.Adam(0.1), torch.optim.Adam, {"lr": 0.1}),
    (nn.Adam(0.1, amsgrad=True), torch.optim.Adam, {"lr": 0.1, "amsgrad": True}),
    (nn.AdamW(0.1, decay=0.1), torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.1}),
    (nn.RMSProp(0.01, momentum=0.5), torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5}),
    (nn.Adagrad(0.1), torch.optim.Adagrad, {"lr": 0.1}),
]  # fmt: skip
SCHEDULES = [
    (nn.Cosine(1.0, 10, 0.2), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10, 0.2), 10),
    (nn.StepDecay(1.0, 4, 0.5), lambda o: torch.optim.lr_scheduler.StepLR(o, 4, 0.5), 30),
    (nn.Milestones(1.0, (3, 8)), lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [3, 8]), 30),
    (nn.Polynomial(1.0, 10, 0.0, 2.0), lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 10, 2.0), 30),
    (nn.LinearSchedule(1.0, 10, 0.5), lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.5, 10), 30),
    (nn.CosineRestarts(1.0, 4, growth=2), lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 2), 30),
]


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300))


def activation(layer: nn.Layer, theirs: torch.nn.Module) -> float:
    model = nn.Model(layer, (4,), dtype=F64, backend="reference", loss=nn.MeanSquaredError())
    return difference(model.predict(X), theirs(torch.tensor(X)).detach().numpy())


def loss(ours: nn.Loss, target: np.ndarray, theirs: object) -> float:
    graph = DynamicGraph("reference")
    found = ours.build(graph.constant(X), graph.constant(target)).item()
    return difference(np.array(found), theirs(torch.tensor(X), torch.tensor(target)).numpy())


def optimizer(ours: nn.Optimizer, theirs: type, options: dict) -> float:
    model = nn.Model(nn.Dense(4), (4,), dtype=F64, loss=nn.MeanSquaredError(), optimizer=ours)
    layer = torch.nn.Linear(4, 4, dtype=torch.float64)
    state = model.state_dict()
    layer.weight.data, layer.bias.data = torch.tensor(state["weight"].T.copy()), torch.tensor(state["bias"])
    other = theirs(layer.parameters(), **options)
    for _ in range(50):
        model.train_on_batch(X, Y)
        other.zero_grad()
        F.mse_loss(layer(torch.tensor(X)), torch.tensor(Y)).backward()
        other.step()
    return difference(model.state_dict()["weight"], layer.weight.detach().numpy().T)


def schedule(ours: nn.RateSchedule, theirs: object, steps: int) -> float:
    other = torch.optim.SGD([torch.zeros(1)], 1.0)
    scheduler, rates = theirs(other), []
    for _ in range(steps):
        rates.append(other.param_groups[0]["lr"])
        other.step()
        scheduler.step()
    return difference(np.array([ours.rate(step + 1) for step in range(steps)]), np.array(rates))


def main() -> None:
    for measure, rows in ((activation, ACTIVATIONS), (loss, LOSSES), (optimizer, OPTIMIZERS), (schedule, SCHEDULES)):
        for row in rows:
            print(f"{measure.__name__:<11} {type(row[0]).__name__:<22} {measure(*row):.1e}")


if __name__ == "__main__":
    main()
