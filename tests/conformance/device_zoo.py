"""Networks of the zoo on a device: how many steps it claims, and a training step and a prediction; a JSON line each.

    python -m tests.conformance.device_zoo vulkan [--run] [--most 200] [--seconds 60] [NAME ...]

`claimed` counts the commands of a training step and of a prediction that the device has kernels for, bodies of loops
included, `on_host` names the others; nothing is run for that. With `--run` networks of at most so many million
parameters make a step of training and a prediction, of one example: losses are finite and fall on the same example.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter

import numpy as np

from nnc.core.values.device import Device, device_of
from nnc.nn.model.model import Model
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.model_step import ModelStep
from nnc.nn.zoo.networks import NETWORKS, network
from nnc.ops.movement.transfer import TO_DEVICE
from nnc.symbolic.ir import SymbolicGraph, bodies_of

MILLION = 1_000_000
LEAST_SHARE = 0.9
STEPS = 3


def counted(graph: SymbolicGraph) -> tuple[int, Counter[str]]:
    """Commands on a device, and those on the host by operator, transfers left out."""
    there, here, waiting = 0, Counter[str](), [graph]
    while waiting:
        graph = waiting.pop()
        for _, record in graph.execs.items():
            bodies = bodies_of(record.command)
            waiting += [body.graph for _, body in bodies]
            if bodies or record.command.op is TO_DEVICE:
                continue
            specs = [graph.tensors[key].spec for key in (*record.inputs, *record.outputs) if key is not None]
            if all(spec.device.is_host for spec in specs):
                here[record.command.op.name] += 1
            else:
                there += 1
    return there, here


def planned(model: Model, kind: StepKind) -> ModelStep:
    """The step for one example; nothing is allocated."""
    return model._programs.plan(StepKey(kind, 1)).step


def coverage(name: str, device: Device) -> dict[str, object]:
    """Claimed commands of both steps, of all."""
    model = network(name).to(device)
    there, here = 0, Counter[str]()
    for kind in (StepKind.TRAIN, StepKind.PREDICT):
        claimed, refused = counted(planned(model, kind).compiled.planned.graph)
        there, here = there + claimed, here + refused
    return {"network": name, "claimed": there, "of": there + here.total(), "on_host": dict(here)}


def examples(step: ModelStep) -> list[np.ndarray]:
    """Numbers of the types and shapes that a step reads."""
    rng = np.random.default_rng(0)
    specs = [symbol.spec for symbol in (*step.inputs, *step.targets)]
    return [
        rng.random(spec.shape, np.float32) if spec.dtype.is_float else rng.integers(0, 2, spec.shape, spec.dtype.numpy)
        for spec in specs
    ]


def trained(name: str, device: Device) -> dict[str, object]:
    """Losses of some steps on one example, and the least time. AssertionError: they are not finite, or do not fall."""
    began, model = time.perf_counter(), network(name).to(device)
    arrays = examples(model.training_step(1))
    *inputs, target = arrays
    x = inputs[0] if len(inputs) == 1 else tuple(inputs)
    losses, seconds = list[float](), list[float]()
    for _ in range(STEPS):
        before = time.perf_counter()
        losses.append(float(model.train_on_batch(x, target)[0]))
        seconds.append(time.perf_counter() - before)
    assert np.isfinite(losses).all(), losses
    assert min(losses[1:]) < losses[0], losses
    assert np.isfinite(np.asarray(model.predict(x))).all()
    return {"losses": losses, "ms": round(min(seconds) * 1e3, 2), "seconds": round(time.perf_counter() - began, 1)}


def main() -> int:
    """The command line; the status is 0 where enough is claimed of each and all that ran went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--most", type=float, default=200, help="million parameters of a network that is run")
    parser.add_argument("--seconds", type=float, default=60, help="after these no further network is begun")
    options = parser.parse_intermixed_args()
    device, failed, deadline = device_of(options.device), 0, time.monotonic() + options.seconds
    for name in options.names or NETWORKS:
        if time.monotonic() > deadline:
            print(json.dumps({"network": name, "left_out": "no time"}), flush=True)
            continue
        row = coverage(name, device) if not options.run else {"network": name}
        try:
            if options.run and NETWORKS[name].parameters <= options.most * MILLION:
                row |= trained(name, device)
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}"[:200]
        few = not options.run and row["claimed"] < LEAST_SHARE * row["of"]  # type: ignore[operator]  # numbers
        failed += "failed" in row or few
        print(json.dumps(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
