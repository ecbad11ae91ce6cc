"""Milliseconds of whole training steps and predictions, ours and the peers' in turns; one JSON line per case.

    python benchmarks/models.py [--threads N] [--repeats N] [--only TEXT] [--peers NAME ...] [--processor] [--memory]
                                [--half]

Peers are torch eager, torch.compile, onnxruntime and JAX; one that is absent or cannot run a case is skipped, and
`skipped` says why. All run in this process, on as many threads, on inputs of the same shapes, in f32; training is plain
stochastic gradient descent. `ratio` is ours / the best peer's, of medians; `ratio_of_best` of the fastest runs.

A ratio needs an otherwise idle machine: with other work on its cores, threads that meet at barriers wait for those that
the system does not let run, and the sides suffer unequally. `load` is the system's load at the start, and `disturbed`
names the sides whose median is more than SPREAD times their best: such a row is no evidence for any of them. On a busy
machine `--threads 1 --processor` counts the milliseconds in which the process had a processor, on all of its threads.

With `--half` products are of bf16 on all sides that can: ours by `precision`, torch's by autocast.

With `--memory` each side runs in a process of its own instead, and what counts are the bytes that the process had in
memory at most (VmHWM), its libraries among them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import twins
from peers import PEERS, RATE, Offer, Run
from process import high_water
from twins import Array

from nnc import nn
from nnc.core.dtype import BF16, dtype_of
from nnc.core.settings import SETTINGS
from nnc.nn.zoo import NETWORKS, bert_base, gpt_6x384, resnet20

Clock = Callable[[], float]

PAUSE = 0.1
SPREAD = 1.5
STEPS = 3  # of a process whose memory is measured
IMAGE = (1, 224, 224, 3)


@dataclass(frozen=True, slots=True)
class Case:
    """A name, what runs our step, and what peers make theirs of."""

    name: str
    ours: Callable[[], Run]
    offer: Offer


def mlp() -> nn.Layer:
    return nn.Sequential(first=nn.Dense(512), a=nn.ReLU(), second=nn.Dense(512), b=nn.ReLU(), third=nn.Dense(10))


def lstm() -> nn.Layer:
    return nn.Sequential(memory=nn.LSTM(256, 2), classes=nn.Dense(10))


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def labels(classes: int, *shape: int) -> Array:
    return np.random.default_rng(1).integers(0, classes, shape).astype(np.int32)


def model_of(layer: nn.Layer, x: Array, half: bool) -> nn.Model:
    optimizer, precision = nn.SGD(RATE, momentum=0.0), BF16 if half else None
    return nn.Model(layer, x.shape[1:], optimizer=optimizer, input_dtype=dtype_of(x.dtype), precision=precision)


def our_training(layer: Callable[[], nn.Layer], x: Array, target: Array, half: bool) -> Callable[[], Run]:
    def make() -> Run:
        step = model_of(layer(), x, half).training_step(len(x))
        # A planned step may reuse its inputs' memory, so they are written before each run.
        return lambda: step.run(x, target)

    return make


def our_prediction(layer: Callable[[], nn.Layer], x: Array, half: bool) -> Callable[[], Run]:
    def make() -> Run:
        # onnxruntime works on weights once, too.
        step = model_of(layer(), x, half).freeze(len(x))
        return lambda: step.run(x)

    return make


def trainings(half: bool = False) -> Iterator[Case]:
    rows: tuple[tuple[str, Callable[[], nn.Layer], Offer], ...] = (
        ("mlp b64", mlp, Offer(twins.mlp, numbers(64, 784), labels(10, 64), twins.jax_mlp_training)),
        ("resnet20 b128", resnet20, Offer(twins.resnet20, numbers(128, 32, 32, 3), labels(10, 128))),
        (
            "lstm 2x256 b32 t64",
            lstm,
            Offer(twins.lstm, numbers(32, 64, 256), labels(10, 32, 64), twins.jax_lstm_training),
        ),
        (
            "gpt_6x384 b8 t256",
            gpt_6x384,
            Offer(twins.gpt, labels(65, 8, 256), labels(65, 8, 256), twins.jax_gpt_training),
        ),
    )
    for name, layer, offer in rows:
        assert offer.target is not None
        ours = our_training(layer, offer.x, offer.target, half)
        yield Case(f"train {name}", ours, replace(offer, half=half))


def predictions(half: bool = False) -> Iterator[Case]:
    """Predictions for one input: networks by name, torchvision's names, and the light graphs of the onnx wheel."""
    images = (
        ("resnet50", "resnet50", "resnet50"),
        ("densenet121", "densenet121", "densenet121"),
        ("squeezenet", "squeezenet1_1", "squeezenet"),
        ("mobilenet_v2", "mobilenet_v2", ""),
        ("vgg19", "vgg19", "vgg19"),
    )
    for name, twin, light in images:
        x = numbers(*IMAGE)
        offer = Offer(twins.vision(twin), x, light=light, half=half)
        yield Case(f"predict {name} b1", our_prediction(NETWORKS[name].build, x, half), offer)
    x = labels(30_522, 1, 128)
    yield Case("predict bert_base b1 t128", our_prediction(bert_base, x, half), Offer(twins.bert, x, half=half))


def milliseconds(run: Run, clock: Clock) -> float:
    start = clock()
    run()
    return (clock() - start) * 1e3


def sides_of(case: Case, names: Sequence[str], threads: int) -> tuple[dict[str, Run], dict[str, str]]:
    """What runs, and why others do not; the first run of each compiles and allocates."""
    sides, skipped = {"ours": case.ours()}, {}
    sides["ours"]()
    for name in names:
        try:
            run = PEERS[name](threads, case.offer)
            run()
            sides[name] = run
        except Exception as error:  # whatever a peer raises is the reason why it is skipped
            skipped[name] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
    return sides, skipped


def measure(case: Case, names: Sequence[str], threads: int, repeats: int, clock: Clock) -> dict[str, object]:
    """Medians of runs in turns, each right after one that wakes the side's workers; idle ones spin for up to 40 ms."""
    sides, skipped = sides_of(case, names, threads)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            time.sleep(PAUSE)
            run()
            times[name].append(milliseconds(run, clock))
    row: dict[str, object] = {"case": case.name}
    medians = {name: statistics.median(values) for name, values in times.items()}
    bests = {name: min(values) for name, values in times.items()}
    for name in sides:
        row |= {name: round(medians[name], 3), f"{name}_best": round(bests[name], 3)}
    peers = [name for name in sides if name != "ours"]
    if peers:
        row["ratio"] = round(medians["ours"] / min(medians[name] for name in peers), 3)
        row["ratio_of_best"] = round(bests["ours"] / min(bests[name] for name in peers), 3)
    row["disturbed"] = [name for name in sides if medians[name] > SPREAD * bests[name]]
    return row | {"skipped": skipped}


def peak_of(name: str, side: str, threads: int) -> int:
    """The most bytes that this process has in memory when `side` takes some steps of the case of this name."""
    case = next(case for cases in (trainings, predictions) for case in cases() if case.name == name)
    run = case.ours() if side == "ours" else PEERS[side](threads, case.offer)
    for _ in range(STEPS):
        run()
    return high_water()


def footprints(name: str, names: Sequence[str], threads: int) -> dict[str, object]:
    """The high-water marks of all sides, each in a process of its own; the second time, when caches are full."""
    row: dict[str, object] = {"case": name}
    found: dict[str, int] = {}
    for side in ("ours", *names):
        words = [sys.executable, __file__, "--threads", str(threads), "--high-water", name, side]
        for _ in range(2):
            done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            row[f"{side}_error"] = done.stderr.strip().splitlines()[-1][:120]
        else:
            found[side] = int(done.stdout.split()[-1])
    return row | found | {"ratios": {side: round(found["ours"] / found[side], 3) for side in found if side != "ours"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="workers; 0 means one per usable core")
    parser.add_argument("--repeats", type=int, default=15, help="runs per case; the median counts")
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    parser.add_argument("--processor", action="store_true", help="count the process's own time on processors")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="whom to compare with")
    parser.add_argument("--half", action="store_true", help="products of bf16 on all sides")
    parser.add_argument("--memory", action="store_true", help="count the bytes of a process of its own instead")
    parser.add_argument("--high-water", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    threads = SETTINGS.worker_count()
    if options.high_water:
        print(peak_of(*options.high_water, threads))
        return
    clock = time.process_time if options.processor else time.perf_counter
    print(json.dumps({"threads": threads, "clock": clock.__name__, "load": round(os.getloadavg()[0], 2)}))
    for cases in (trainings, predictions):
        for case in cases(options.half):
            if options.only not in case.name:
                continue
            if options.memory:
                row = footprints(case.name, options.peers, threads)
            else:
                row = measure(case, options.peers, threads, options.repeats, clock)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
