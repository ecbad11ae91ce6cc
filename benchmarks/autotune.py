"""Milliseconds of steps with first choices and with measured ones, in alternation; one JSON line per case.

    python benchmarks/autotune.py [--threads N] [--repeats N] [--only TEXT]

`ratio` is measured / first. `changed` counts the nodes whose kernel another one has taken the place of, by its name,
and `tuning_s` is what finding them took, kernels compiled and nothing remembered from earlier runs.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections import Counter

import numpy as np

from nnc.concrete import TuneCache, TuneOptions
from nnc.core.settings import SETTINGS
from nnc.nn import Model
from nnc.nn.steps.model_step import ModelStep
from nnc.nn.zoo import NETWORKS

# Network, kind of step, batch.
CASES = (
    ("squeezenet", "predict", 1),
    ("mobilenet_v2", "predict", 1),
    ("resnet50", "predict", 1),
    ("densenet121", "predict", 1),
    ("bert_base", "predict", 1),
    ("digits", "train", 64),
    ("resnet20", "train", 128),
    ("gpt_6x384", "train", 2),
)


def step_of(name: str, kind: str, batch: int, autotune: TuneOptions | bool) -> ModelStep:
    row = NETWORKS[name]
    model = Model(row.build(), row.input_shape, input_dtype=row.input_dtype, autotune=autotune)
    return model.training_step(batch) if kind == "train" else model.prediction_step(batch)


def milliseconds(step: ModelStep) -> float:
    """One run on zeros, which every network takes."""
    for symbol in (step.inputs, step.target):
        if symbol is not None:
            step.compiled.write(symbol, np.zeros(symbol.shape, symbol.spec.dtype.numpy))
    start = time.perf_counter()
    step.compiled.run()
    return 1e3 * (time.perf_counter() - start)


def measure(name: str, kind: str, batch: int, repeats: int) -> dict[str, object]:
    first = step_of(name, kind, batch, False)
    measured = step_of(name, kind, batch, TuneOptions(cache=TuneCache(None)))
    milliseconds(first)
    start = time.perf_counter()
    graph = measured.compiled.allocate()
    tuning = time.perf_counter() - start
    pairs = [(milliseconds(first), milliseconds(measured)) for _ in range(repeats)]
    one, other = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {
        "case": f"{name} {kind} b{batch}",
        "threads": SETTINGS.worker_count(),
        "first_ms": round(one, 3),
        "measured_ms": round(other, 3),
        "ratio": round(other / one, 3),
        "tuning_s": round(tuning, 2),
        "changed": dict(sorted(Counter(re.findall(r" on (llvm:\S+|blas|onednn)", str(graph))).items())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    for name, kind, batch in CASES:
        if options.only in name:
            print(json.dumps(measure(name, kind, batch, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
