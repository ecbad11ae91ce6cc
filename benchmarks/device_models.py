"""Whole models on a device beside torch eager on the same device: steps as users take them; one JSON line per case.

    python benchmarks/device_models.py [--device cuda] [--seconds 1.0] [--only TEXT] [--half]

A training step is `train_on_batch` of arrays of the host: the batch goes to the device, the loss comes back. torch does
the same with eager modules, and plain stochastic gradient descent on both sides. `ms` and `torch_ms` are means of steps
that each wait for their result, `ratio` is torch's / ours; `device_ms` is the program alone, run many times between two
waits, `host_ms` the time in which it was queued. TF32 is off. `on_host` are the operators of the step that the device
has no kernel for. With `--half` products are of bf16: `precision` here, autocast there.
"""

# ruff: noqa: ANN401  torch may be absent, so nothing here can name its types

from __future__ import annotations

import argparse
import importlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import twins
from cases import labels, mlp, model_of, numbers
from devices import seconds_each, seconds_queued
from peers import RATE, Offer, torch_input

from nnc import nn
from nnc.core.running.devices import DEVICES
from nnc.core.values.device import Device, device_of
from nnc.errors import NncError
from nnc.nn.steps.model_step import ModelStep
from nnc.nn.zoo import bert_base, gpt_6x384, resnet20

QUEUED = 20


@dataclass(frozen=True, slots=True)
class ModelCase:
    """A name, our network, and what torch makes its twin of: a training step, or without labels a prediction."""

    name: str
    layer: Callable[[], nn.Layer]
    offer: Offer


def digits() -> nn.Layer:
    """64 → 128 → 10"""
    return nn.Sequential(nn.Dense(128), nn.ReLU(), nn.Dense(10))


def digits_twin(torch: Any) -> Any:
    """The same in torch."""
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def cases() -> Iterator[ModelCase]:
    """Perceptrons, a residual network, transformers."""
    yield ModelCase("train digits b256", digits, Offer(digits_twin, numbers(256, 64), labels(10, 256)))
    yield ModelCase("train mlp b64", mlp, Offer(twins.mlp, numbers(64, 784), labels(10, 64)))
    yield ModelCase("train resnet20 b128", resnet20, Offer(twins.resnet20, numbers(128, 32, 32, 3), labels(10, 128)))
    tokens = labels(65, 8, 256)
    yield ModelCase("train gpt_6x384 b8 t256", gpt_6x384, Offer(twins.gpt, tokens, tokens))
    yield ModelCase("predict resnet20 b128", resnet20, Offer(twins.resnet20, numbers(128, 32, 32, 3)))
    yield ModelCase("predict bert_base b8 t128", bert_base, Offer(twins.bert, labels(30_522, 8, 128)))


def each(run: Callable[[], object], seconds: float) -> float:
    """Milliseconds of a run that waits for itself."""
    return seconds_each(run, lambda: None, seconds) * 1e3


def torch_step(torch: Any, offer: Offer) -> Callable[[], object]:
    """A step of torch's from arrays of the host to a number, or to scores, of the host."""
    model, place = offer.twin(torch).to("cuda"), "cuda"  # type: ignore[misc]  # each case here has a twin
    wanted = None if offer.target is None else torch.from_numpy(offer.target.astype(np.int64).reshape(-1))
    model.train(wanted is not None)
    optimizer = torch.optim.SGD(model.parameters(), RATE)

    def call() -> Any:
        with torch.autocast("cuda", torch.bfloat16, enabled=offer.half):
            return model(torch_input(torch, offer.x).to(place))

    def train() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(call().float(), wanted.to(place))
        loss.backward()
        optimizer.step()
        return float(loss.item())

    def predict() -> object:
        with torch.inference_mode():
            return call().cpu()

    return predict if wanted is None else train


def alone(step: ModelStep, device: Device, seconds: float) -> dict[str, float]:
    """The program of a step without the batch and the results, whatever it reads; nothing where it refuses that."""
    run, wait = step.compiled.allocate().run, partial(DEVICES.driver(device).synchronize, device)
    try:
        run()
    except NncError:
        return {}
    whole, host = seconds_each(run, wait, seconds), seconds_queued(run, wait, QUEUED)
    return {"device_ms": round(whole * 1e3, 4), "host_ms": round(host * 1e3, 4)}


def measure(torch: Any, device: Device, case: ModelCase, options: argparse.Namespace) -> dict[str, object]:
    """The line of a case."""
    offer = replace(case.offer, half=options.half)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        began = time.perf_counter()
        model = model_of(case.layer(), offer.x, offer.half).to(device)
        if offer.target is None:
            step, run = model.freeze(len(offer.x)), lambda: step.run(offer.x)
        else:
            step, run = model.training_step(len(offer.x)), lambda: model.train_on_batch(offer.x, offer.target)
        run()
        first = time.perf_counter() - began
    row: dict[str, object] = {"case": case.name, "first_s": round(first, 2)}
    ours = each(run, options.seconds)
    row |= {"ms": round(ours, 4), **alone(step, device, options.seconds / 2)}
    if torch is not None:
        theirs = each(torch_step(torch, offer), options.seconds)
        row |= {"torch_ms": round(theirs, 4), "ratio": round(theirs / ours, 3)}
    return row | {"on_host": sorted({str(each.message)[:90] for each in told})}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    torch, device = None, device_of(options.device)
    if device.kind == "cuda":
        torch = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for case in cases():
        if options.only in case.name:
            print(json.dumps(measure(torch, device, case, options)), flush=True)


if __name__ == "__main__":
    main()
