"""What the networks of `nnc.nn.zoo` need in memory, one JSON line per network and mode, in bytes.

    python benchmarks/memory.py [--only NAME ...] [--mode predict train] [--batch N] [--limit PERCENT] [--run]
                                [--optimizer NAME] [--peers torch onnxruntime jax]
    python benchmarks/memory.py --cases [--only NAME ...]
    python benchmarks/memory.py --together NAME NAME ... [--mode MODE] [--batch N]

`arena` is the plan, `lower_bound` what any plan of its order needs, `activations` that bound without the kernels'
workspace, `without_reuse` one buffer per tensor. `gradients` is what one buffer per parameter would take; updates fused
into the backward pass save them, so that they are no part of `total` = arena + weights + state.

With `--run` each line is also run, twice, in a process of its own: `ours` is by how much its memory that no file is
behind rises above that after the imports and the start of LLVM, at its highest. `process` is the statement of that, and
`off` = ours - process. Each of the `--peers` does the same with its own network of the same sizes, if it has that one;
`ratios` are ours / theirs. With `--limit` the arena may have that part of what it takes without. `--cases` runs CASES,
each with an empty folder of kernels and then with what that run left in it, kinds of steps of `memory_kinds` among
them, and says how many statements are within 5 % or 8 MB of what was taken. `--together` runs networks in
turns in one process, in arenas of their own and in one that they share: what they took, the joint statement of the
shared arena, and the sum of their statements.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from memory_kinds import KINDS as OTHER_KINDS
from memory_kinds import run_kind
from memory_peers import MODULES, PEERS, export
from networks import NETWORKS as TWINS
from process import high_water, settled

import nnc
from nnc import nn
from nnc.backends.llvm.run.engine import engine
from nnc.core.values.dtype import I32
from nnc.nn.model.compiled_steps import KINDS
from nnc.nn.zoo import NETWORKS, network

OPTIMIZERS: dict[str, nn.Optimizer] = {
    "sgd": nn.SGD(1e-4, momentum=0.0),
    "momentum": nn.SGD(1e-4),
    "adam": nn.Adam(1e-4),
}


# Networks, batches and modes of `--cases`; a mode with a number trains within that part of the arena.
EVERY = ("predict", "train", "evaluate", "freeze")
CASES = (
    *((name, batch, mode) for name in ("digits", "resnet20") for batch in (1, 32) for mode in EVERY),
    *(
        (name, batch, mode)
        for name in ("squeezenet", "mobilenet_v2", "lstm", "gpt_6x384")
        for batch in (1, 8)
        for mode in EVERY
    ),
    *((name, batch, mode) for name in ("resnet50", "unet") for batch in (1, 2) for mode in EVERY),
    *((name, 1, mode) for name in ("densenet121", "vgg19") for mode in EVERY),
    *(("bert_base", 1, mode) for mode in ("predict", "evaluate", "freeze")),
    ("gpt2_small", 1, "predict"),
    *((name, batch, "80") for name, batch in (("digits", 32), ("resnet20", 1), ("resnet20", 32), ("squeezenet", 1))),
    *(("gpt_6x384", 2, mode) for mode in ("generate", "lora", "accumulate", "state")),
    *(("squeezenet", 4, mode) for mode in ("bf16", "sizes", "onnx", "state")),
    ("digits", 8, "onnx"),
    ("resnet50", 1, "onnx"),
)
SHARE, ROOM = 0.05, 8 << 20
WAYS = ("apart", "shared")


class MeasureError(Exception):
    """A process that did not end well, with its last line."""


def made(name: str, mode: str, batch: int, optimizer: str, backend: str, percent: int) -> nn.Model:
    """The model of a line, with its limit."""
    model = network(name, optimizer=OPTIMIZERS[optimizer], backend=backend)
    if not percent:
        return model
    limit = model.memory(batch, mode).step.arena * percent // 100
    return network(name, optimizer=OPTIMIZERS[optimizer], backend=backend, memory_limit=limit)


def planned(name: str, mode: str, batch: int, optimizer: str, backend: str, percent: int) -> dict[str, object]:
    """The statement of one step, before anything is allocated."""
    begin = perf_counter()
    memory = made(name, mode, batch, optimizer, backend, percent).memory(batch, mode)
    seconds = perf_counter() - begin
    step = memory.step
    bare = network(name, optimizer=OPTIMIZERS[optimizer], backend="reference").memory(batch, mode).step
    return {
        "network": name,
        "mode": mode,
        "batch": batch,
        "optimizer": optimizer,
        "limit": percent,
        "arena": step.arena,
        "lower_bound": step.lower_bound,
        "optimal": step.optimal,
        "activations": bare.lower_bound,
        "without_reuse": step.without_reuse,
        "workspace": step.workspace,
        "weights": memory.weights,
        "gradients": memory.gradients,
        "state": memory.optimizer_state,
        "total": memory.total,
        "process": memory.process,
        "peak_step": step.peak_step,
        "peak_tensors": step.peak_tensors,
        "seconds": round(seconds, 3),
    }


def run_here(
    side: str, name: str, mode: str, batch: int, optimizer: str, backend: str, percent: int, path: str
) -> tuple[int, int]:
    """Bytes by which two steps raise the memory of this process at its highest, and the statement if it is ours."""
    for module in MODULES.get(side, ()):
        importlib.import_module(module)
    model = network(name)
    inputs, labels = made_up(model, batch)
    if mode in OTHER_KINDS:
        engine()
        with TemporaryDirectory() as folder:
            return run_kind(mode, name, inputs, labels, folder)
    if side == "ours":
        engine()
        before = settled()
        stated = run_steps(made(name, mode, batch, optimizer, backend, percent), mode, inputs, labels)
    else:
        before, stated = settled(), 0
        PEERS[side](name, mode, inputs, labels, path)
    return high_water() - before, stated


def made_up(model: nn.Model, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of the right shapes."""
    inputs = np.zeros((batch, *model.input_shape), model.input_dtype.numpy)
    if model.input_dtype is not I32:
        inputs += np.linspace(-1.0, 1.0, inputs.size, dtype=inputs.dtype).reshape(inputs.shape)
    return inputs, np.zeros((batch, *model.output_shape[:-1]), np.int32)


def run_together(names: Sequence[str], mode: str, batch: int, *, shares: bool) -> tuple[int, int]:
    """Bytes by which two steps of each network in turn raise the memory of this process, and what is stated."""
    arena = nnc.arena() if shares else None
    made_inputs = [made_up(network(name), batch) for name in names]
    engine()
    before = settled()
    models = [network(name, optimizer=OPTIMIZERS["sgd"], arena=arena) for name in names]
    apart = sum(model.memory(batch, mode).process for model in models)
    stated = apart if arena is None else arena.memory().process
    for _ in range(2):
        for model, (inputs, labels) in zip(models, made_inputs, strict=True):
            run_steps(model, mode, inputs, labels)
    return high_water() - before, stated


def run_steps(model: nn.Model, mode: str, inputs: np.ndarray, labels: np.ndarray) -> int:
    """Two steps on made-up data; the statement."""
    batch = len(inputs)
    stated = model.memory(batch, mode).process
    frozen = model.freeze(batch) if mode == "freeze" else None
    for _ in range(2):
        if mode == "train":
            model.train_on_batch(inputs, labels)
        elif mode == "evaluate":
            model.evaluate(inputs, labels, batch)
        elif frozen is not None:
            frozen.run(inputs)
        else:
            model.predict(inputs, batch)
    return stated


def apart(*words: str, kernels: str | None = None) -> list[int]:
    """The numbers that this file prints for `words` in a process of its own; MeasureError when it fails.

    `kernels` is another folder for compiled kernels than the usual one.
    """
    environment = os.environ if kernels is None else os.environ | {"NNC_CACHE_DIR": kernels}
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, env=dict(environment))
    if done.returncode:
        raise MeasureError(" ".join(done.stderr.strip().splitlines()[-1:]))
    return [int(word) for word in done.stdout.split()]


def measured(row: dict[str, object], backend: str, peers: Sequence[str]) -> dict[str, object]:
    """The same step, ours and the peers', each in a process of its own."""
    words = [str(row[key]) for key in ("network", "mode", "batch", "optimizer")]
    found: dict[str, object] = {}
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "network.onnx")
        for side in ("ours", *peers):
            if side == "onnxruntime" and row["mode"] == "train":
                continue
            try:
                if side == "onnxruntime":
                    apart("--export", str(row["network"]), str(row["batch"]), path)
                found[side], _ = apart("--measure", side, *words, backend, str(row["limit"]), path)
            except MeasureError as error:
                found[f"{side}_error"] = str(error)
    real = found.get("ours")
    if isinstance(real, int):
        found["off"] = real - int(str(row["process"]))
        found["ratios"] = {side: round(real / peer, 3) for side in peers if isinstance(peer := found.get(side), int)}
    return found


def answer(options: argparse.Namespace) -> tuple[int, ...] | None:
    """What a process of its own was asked for."""
    if options.export:
        name, batch, path = options.export
        export(name, made_up(network(name), int(batch))[0], path)
        return ()
    if options.measure_together:
        shares, mode, batch, *names = options.measure_together
        return run_together(names, mode, int(batch), shares=shares == "shared")
    if options.measure:
        side, name, mode, batch, optimizer, backend, percent, path = options.measure
        return run_here(side, name, mode, int(batch), optimizer, backend, int(percent), path)
    return None


def run_cases(names: Sequence[str], optimizer: str, backend: str) -> None:
    """Two lines for each of CASES of these networks, and how many statements hold."""
    held, refused = {"cold": 0, "warm": 0}, {"cold": 0, "warm": 0}
    cases = [case for case in CASES if case[0] in names]
    for name, batch, mode in cases:
        percent, kind = (int(mode), "train") if mode.isdigit() else (0, mode)
        row = {"network": name, "mode": kind, "batch": batch, "limit": percent}
        with TemporaryDirectory() as folder:
            for state in held:
                words = ("ours", name, kind, str(batch), optimizer, backend, str(percent), "")
                try:
                    real, stated = apart("--measure", *words, kernels=folder)
                except MeasureError as error:
                    # What kernels take beside the tensors differs by processor, and with it the least limit.
                    if "MemoryLimitError" not in str(error):
                        raise
                    refused[state] += 1
                    print(json.dumps(row | {"kernels": state, "refused": str(error)}), flush=True)
                    continue
                within = abs(real - stated) <= max(SHARE * real, ROOM)
                held[state] += within
                found = {"kernels": state, "ours": real, "process": stated, "off": real - stated, "within": within}
                print(json.dumps(row | found), flush=True)
    print(json.dumps({"cases": len(cases), "within": held, "refused": refused}))


def main() -> None:
    """Read the options, print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--mode", nargs="+", choices=KINDS, default=["predict", "train"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--backend", default="")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[])
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--cases", action="store_true")
    parser.add_argument("--together", nargs="+", choices=NETWORKS, default=[])
    parser.add_argument("--measure-together", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=8, help=argparse.SUPPRESS)
    parser.add_argument("--export", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    asked = answer(options)
    if asked is not None:
        print(*asked)
        return
    if options.cases:
        run_cases(options.only, options.optimizer, options.backend)
        return
    if options.together:
        for mode in options.mode:
            rows = {way: apart("--measure-together", way, mode, str(options.batch), *options.together) for way in WAYS}
            found = {
                way: {"ours": real, "process": stated, "off": real - stated} for way, (real, stated) in rows.items()
            }
            print(json.dumps({"networks": options.together, "mode": mode, "batch": options.batch, **found}), flush=True)
        return
    for name in options.only:
        for mode in options.mode:
            row = planned(name, mode, options.batch, options.optimizer, options.backend, options.limit)
            if options.run or options.peers:
                row |= measured(row, options.backend, options.peers if name in TWINS else ())
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
