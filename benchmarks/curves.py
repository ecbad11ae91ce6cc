"""Loss curves beside torch's: the same weights, data and order, 50 steps; a JSON line per case.

Run: python benchmarks/curves.py [NAME…]   (needs torch, `pip install nnc[bench]`)

`difference` is the largest |ours - theirs| / |theirs| of all steps, `bound` what it may be; the exit status is 1 where
one is above. Without names all cases run: networks, optimizers, schedules and mixed precision.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from nnc import nn
from nnc.core.values.dtype import BF16, F64, I32
from nnc.nn.zoo import GPT, gru_language_model, lstm_language_model, resnet20

STEPS, BOUND = 50, 1e-4
# Losses of mixed precision differ by what 16 bits round differently: two roundings of bf16, docs/precision.
MIXED = 2 * 2.0**-7
# A rectifier that rounding flips changes a gradient by 1e-3: at this rate torch in f32 is 9e-4 from torch in f64 after
# twelve steps. ResNet-20 is compared in f64, where a difference is one of formulas.
LEARNING = torch.optim.lr_scheduler


@dataclass(frozen=True)
class Case:
    """A model and its twin in torch, one batch per step, and an optimizer for each."""

    model: nn.Model
    twin: torch.nn.Module
    batches: Callable[[int], tuple[np.ndarray, np.ndarray]]
    optimizer: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
    schedule: Callable[[torch.optim.Optimizer], LEARNING.LRScheduler] | None = None
    mixed: bool = False
    bound: float = BOUND


# ---- networks in torch, by the names of ours


class Block(torch.nn.Module):
    """Of ResNet-20: shortcuts pick every second pixel and pad channels."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        parts = {"first": normalized(before, width, stride), "second": normalized(width, width, 1)}
        self.sum = torch.nn.ModuleDict({"body": torch.nn.ModuleDict(parts)})
        self.stride, self.width = stride, width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        body = self.sum["body"]
        y = through(body["second"], F.relu(through(body["first"], x)))
        if self.stride > 1:
            quarter = self.width // 4
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, quarter, quarter))
        return F.relu(x + y)


class ResNet20(torch.nn.Module):
    """Pictures with channels last, as ours takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, before = normalized(3, 16, 1), 16
        for stage, width in enumerate((16, 32, 64), 1):
            for block in range(3):
                stride = 2 if stage > 1 and not block else 1
                setattr(self, f"stage{stage}_{block}", Block(before, width, stride))
                before = width
        self.classes = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(through(self.stem, x.permute(0, 3, 1, 2)))
        for stage in range(1, 4):
            for block in range(3):
                y = getattr(self, f"stage{stage}_{block}")(y)
        return self.classes(y.mean((2, 3)))


def normalized(before: int, filters: int, stride: int) -> torch.nn.ModuleDict:
    convolution = torch.nn.Conv2d(before, filters, 3, stride, 1, bias=False)
    return torch.nn.ModuleDict({"convolution": convolution, "norm": torch.nn.BatchNorm2d(filters)})


def through(parts: torch.nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
    return parts["norm"](parts["convolution"](x))


class Recurrent(torch.nn.Module):
    """A language model of LSTM or GRU."""

    def __init__(self, kind: type[torch.nn.RNNBase], vocabulary: int, units: int) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, units)
        self.memory = kind(units, units, 2, batch_first=True)
        self.classes = torch.nn.Linear(units, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.memory(self.tokens(x))[0])


class Transformer(torch.nn.Module):
    """GPT-2's blocks; the table of tokens gives the logits too."""

    def __init__(self, vocabulary: int, steps: int, features: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, features)
        self.positions = torch.nn.Embedding(steps, features)
        self.layers, self.heads = layers, heads
        for layer in range(layers):
            attention = {name: torch.nn.Linear(features, features) for name in ("query", "key", "value", "output")}
            wide = {"widen": torch.nn.Linear(features, 4 * features), "narrow": torch.nn.Linear(4 * features, features)}
            parts = {
                "attention_norm": torch.nn.LayerNorm(features),
                "attention": torch.nn.ModuleDict(attention),
                "feed_forward_norm": torch.nn.LayerNorm(features),
                "feed_forward": torch.nn.ModuleDict(wide),
            }
            setattr(self, f"block{layer}", torch.nn.ModuleDict(parts))
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.tokens(x) + self.positions.weight[: x.shape[1]]
        for layer in range(self.layers):
            block = getattr(self, f"block{layer}")
            y = y + self.attend(block["attention"], block["attention_norm"](y))
            wide = block["feed_forward"]["widen"](block["feed_forward_norm"](y))
            y = y + block["feed_forward"]["narrow"](F.gelu(wide, approximate="tanh"))
        return self.norm(y) @ self.tokens.weight.T

    def attend(self, parts: torch.nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
        split = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        q, k, v = (parts[name](x).view(split).transpose(1, 2) for name in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return parts["output"](y.transpose(1, 2).reshape(x.shape))


# ---- optimizers that torch has not, by their formulas


class Lion(torch.optim.Optimizer):
    """w' = w - lr · (sign(0.9 m + 0.1 g) + decay · w);  m' = 0.99 m + 0.01 g"""

    def __init__(self, parameters: list[torch.nn.Parameter], lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        for group in self.param_groups:
            for w in group["params"]:
                m = self.state[w].setdefault("m", torch.zeros_like(w))
                w -= group["lr"] * ((0.9 * m + 0.1 * w.grad).sign() + group["weight_decay"] * w)
                m.mul_(0.99).add_(w.grad, alpha=0.01)


class Lamb(torch.optim.Optimizer):
    """d = m̂ / (√v̂ + 1e-6) + decay · w;  w' = w - lr · |w| / |d| · d"""

    def __init__(self, parameters: list[torch.nn.Parameter], lr: float, weight_decay: float = 0.01) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                m, v = state.setdefault("m", torch.zeros_like(w)), state.setdefault("v", torch.zeros_like(w))
                state["t"] = state.get("t", 0) + 1
                m.mul_(0.9).add_(w.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(w.grad, w.grad, value=0.001)
                d = (m / (1 - 0.9 ** state["t"])) / ((v / (1 - 0.999 ** state["t"])).sqrt() + 1e-6)
                d += group["weight_decay"] * w
                norms = w.norm(), d.norm()
                w -= group["lr"] * (norms[0] / norms[1] if norms[0] > 0 and norms[1] > 0 else 1.0) * d


# ---- cases


def pictures(step: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(step)
    labels = random.integers(0, 10, 16)
    x = random.standard_normal((16, 8, 8, 3)) + np.sin(labels)[:, None, None, None]
    return x, labels.astype(np.int32)


def sentences(step: int) -> tuple[np.ndarray, np.ndarray]:
    tokens = (np.random.default_rng(step).integers(0, 3, (8, 17)).cumsum(1)) % 31
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


def tables(step: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(step)
    x = random.standard_normal((32, 8)).astype(np.float32)
    return x, (x[:, :5].argmax(1)).astype(np.int32)


def perceptron(optimizer: nn.Optimizer, **options: object) -> tuple[nn.Model, torch.nn.Module]:
    layer = nn.Sequential(nn.Dense(32), nn.Tanh(), nn.Dense(5))
    twin = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 5))
    return nn.Model(layer, (8,), optimizer=optimizer, **options), twin  # type: ignore[arg-type]


def sgd(rate: float, momentum: float = 0.9, **options: object) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, rate, momentum, **options)  # type: ignore[arg-type]


def networks() -> dict[str, Case]:
    tokens = {"input_dtype": I32}
    gpt = GPT(31, 16, 32, 2, 4)
    adam = lambda parameters: torch.optim.Adam(parameters, 1e-3)  # noqa: E731  # a row of the table below
    picture = nn.Model(resnet20(), (8, 8, 3), optimizer=nn.SGD(0.01), dtype=F64)
    lstm = nn.Model(lstm_language_model(31, 32), (16,), optimizer=nn.Adam(1e-3), **tokens)
    gru = nn.Model(gru_language_model(31, 32), (16,), optimizer=nn.Adam(1e-3), **tokens)
    language = nn.Model(gpt, (16,), optimizer=nn.Adam(1e-3), **tokens)
    return {
        "resnet20": Case(picture, ResNet20().double(), pictures, sgd(0.01)),
        "lstm": Case(lstm, Recurrent(torch.nn.LSTM, 31, 32), sentences, adam),
        "gru": Case(gru, Recurrent(torch.nn.GRU, 31, 32), sentences, adam),
        "transformer": Case(language, Transformer(31, 16, 32, 2, 4), sentences, adam),
    }


OPTIMIZERS: dict[str, tuple[nn.Optimizer, Callable[..., torch.optim.Optimizer]]] = {
    "gradient descent": (nn.SGD(0.1, momentum=0.0), sgd(0.1, 0.0)),
    "momentum": (nn.SGD(0.05, decay=1e-3), sgd(0.05, weight_decay=1e-3)),
    "nesterov": (nn.SGD(0.05, nesterov=True), sgd(0.05, nesterov=True)),
    "adam": (nn.Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
    "amsgrad": (nn.Adam(0.01, amsgrad=True), lambda p: torch.optim.Adam(p, 0.01, amsgrad=True)),
    "adamw": (nn.AdamW(0.01, decay=0.1), lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1)),
    "rmsprop": (nn.RMSProp(1e-3, momentum=0.5), lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.5)),
    "adagrad": (nn.Adagrad(0.05), lambda p: torch.optim.Adagrad(p, 0.05)),
    "adadelta": (nn.Adadelta(0.5), lambda p: torch.optim.Adadelta(p, 0.5)),
    "adamax": (nn.Adamax(0.01), lambda p: torch.optim.Adamax(p, 0.01)),
    "lion": (nn.Lion(1e-3, decay=0.1), lambda p: Lion(p, 1e-3, 0.1)),
    "lamb": (nn.Lamb(0.01), lambda p: Lamb(p, 0.01)),
}
SCHEDULES: dict[str, tuple[nn.RateSchedule, Callable[[torch.optim.Optimizer], LEARNING.LRScheduler]]] = {
    "constant": (nn.Constant(0.1), lambda o: LEARNING.ConstantLR(o, 1.0, 1)),
    "cosine": (nn.Cosine(0.1, 50, 0.01), lambda o: LEARNING.CosineAnnealingLR(o, 50, 0.01)),
    "restarts": (nn.CosineRestarts(0.1, 8, growth=2), lambda o: LEARNING.CosineAnnealingWarmRestarts(o, 8, 2)),
    "exponential": (nn.Exponential(0.1, 50, 0.01), lambda o: LEARNING.ExponentialLR(o, 0.1 ** (1 / 50))),
    "linear": (nn.LinearSchedule(0.1, 40, 0.05), lambda o: LEARNING.LinearLR(o, 1.0, 0.5, 40)),
    "polynomial": (nn.Polynomial(0.1, 50, power=2.0), lambda o: LEARNING.PolynomialLR(o, 50, 2.0)),
    "step": (nn.StepDecay(0.1, 15, 0.5), lambda o: LEARNING.StepLR(o, 15, 0.5)),
    "milestones": (nn.Milestones(0.1, (10, 30)), lambda o: LEARNING.MultiStepLR(o, [10, 30])),
    "warmup": (nn.Warmup(10, nn.Constant(0.1), 0.1), lambda o: LEARNING.LinearLR(o, 0.1, 1.0, 10)),
}


def cases() -> dict[str, Callable[[], Case]]:
    """By name; each is made when its turn comes."""
    found: dict[str, Callable[[], Case]] = {name: lambda name=name: networks()[name] for name in networks()}
    for name, (ours, theirs) in OPTIMIZERS.items():
        found[f"optimizer {name}"] = lambda ours=ours, theirs=theirs: Case(*perceptron(ours), tables, theirs)
    for name, (rate, scheduler) in SCHEDULES.items():
        found[f"schedule {name}"] = lambda rate=rate, scheduler=scheduler: Case(
            *perceptron(nn.SGD(rate)), tables, sgd(0.1), scheduler
        )
    found["mixed bf16"] = lambda: Case(
        *perceptron(nn.Adam(0.01), precision=BF16), tables, OPTIMIZERS["adam"][1], mixed=True, bound=MIXED
    )
    return found


def curves(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """The losses of all steps, ours and torch's, from our first weights."""
    state = {name: torch.tensor(np.ascontiguousarray(array)) for name, array in nn.torch_state_dict(case.model).items()}
    case.twin.load_state_dict(state, strict=False)
    missing = set(case.twin.state_dict()) ^ set(state)
    assert all(name.endswith("num_batches_tracked") for name in missing), missing
    parameters = [w for name, w in case.twin.named_parameters() if not is_second_bias(name, case.model)]
    optimizer = case.optimizer(parameters)
    schedule = None if case.schedule is None else case.schedule(optimizer)
    ours, theirs = [], []
    for step in range(STEPS):
        x, target = case.batches(step)
        ours.append(case.model.train_on_batch(x, target)[0])
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=case.mixed):
            logits = case.twin(torch.tensor(x) if x.dtype.kind == "f" else torch.tensor(x).long())
        logits = logits.float() if case.mixed else logits
        loss = F.cross_entropy(logits.flatten(0, -2), torch.tensor(target).long().flatten())
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        theirs.append(loss.item())
    return np.array(ours), np.array(theirs)


def is_second_bias(name: str, model: nn.Model) -> bool:
    """A bias that our layer has no place for: torch's stays at zero."""
    return "bias_hh_l" in name and not any(path.endswith("state_bias") for path in model.specs)


def main(names: list[str]) -> int:
    """A line per case; 1 where one is above its bound."""
    failed = 0
    for name, make in cases().items():
        if names and name not in names:
            continue
        case = make()
        ours, theirs = curves(case)
        difference = float((np.abs(ours - theirs) / np.abs(theirs)).max())
        passed = difference <= case.bound
        failed |= not passed
        row = {"case": name, "steps": STEPS, "difference": difference, "bound": case.bound, "passed": passed}
        print(json.dumps({**row, "torch": [round(float(loss), 6) for loss in theirs[::10]]}), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
