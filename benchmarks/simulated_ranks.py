"""Steps on ranks of one machine beside what was foretold of them; one JSON line per case.

    python benchmarks/simulated_ranks.py [--ranks 2 3 4] [--cases resnet20 shards gpipe 1f1b tensor] [--rounds N]
    python benchmarks/simulated_ranks.py --curve [--wire ALPHA BETA --computing SECONDS]

`measured` is the median time of a step (ResNet-20; layers of 1,024 × 1,024 with the optimizer's state, gradients and
weights in shards, in as many stages as ranks by either schedule, or, of ranks that divide 1,024, their products
shared), `simulated` what `Model.simulate` says with the wire of these ranks, measured in the same processes, and with
`computing`: of stages the time of a process without a mesh while as many others do the same (`alone`), of the other
cases that of the rank's program where nothing is sent and nobody waits (`own`). That has more to do than the program
without a mesh: batch norms of all ranks are no one kernel with what is beside them, and narrow products take longer for
each element. The goal is a `ratio` within 0.15 of 1; `of_alone` is what `alone` foretells. `--curve` prints what weak
scaling is foretold for up to 1,024 ranks on the wire that is measured with two, or on one that is given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from nnc import nn, parallel
from nnc.nn.zoo import resnet20
from nnc.parallel.communicator import Communicator
from nnc.parallel.launching import command_of

# `Any`: bytes of arrays of any kind.
Trades = Sequence[tuple[Mapping[int, NDArray[Any]], Mapping[int, NDArray[Any]]]]
STEPS, PARTS = 12, 4
SCHEDULES = ("gpipe", "1f1b")
WIRE = ("alpha", "beta", "start")
CASES = ("resnet20", "shards", *SCHEDULES, "tensor")


def model_of(case: str, ranks: int) -> nn.Model:
    """A case on so many ranks; of one without a mesh."""
    data = parallel.Mesh(data=ranks) if ranks > 1 else None
    if case == "resnet20":
        return nn.Model(resnet20(10), (32, 32, 3), optimizer=nn.SGD(0.1), mesh=data)
    options: dict[str, Any] = {"mesh": data, "zero_stage": 3 if data else 0} if case == "shards" else {}
    if ranks > 1 and case == "tensor":
        options = {"mesh": parallel.Mesh(tensor=ranks)}
    if ranks > 1 and case in SCHEDULES:
        pipeline = parallel.Pipeline(PARTS, schedule=case)
        options = {"mesh": parallel.Mesh(pipe=ranks), "pipeline": pipeline}
    layers = [nn.Sequential(nn.Dense(1024), nn.GELU()) for _ in range(8)]
    return nn.Model(nn.Sequential(*layers, nn.Dense(16)), (1024,), **options)


def rows_of(case: str) -> int:
    """Examples of a rank: enough that parts of them cost their part of the time."""
    return 16 if case == "resnet20" else 128


def seconds_of_step(model: nn.Model, rows: int, ranks: parallel.Communicator) -> float:
    """Of the slowest rank."""
    draw = np.random.default_rng(ranks.rank)
    x = draw.standard_normal((rows, *model.input_shape)).astype(np.float32)
    y, taken = draw.integers(0, 10, rows), []
    for _ in range(STEPS):
        ranks.barrier()
        began = perf_counter()
        model.train_on_batch(x, y)
        taken.append(perf_counter() - began)
    return float(ranks.allreduce(np.array([median(taken[2:])]), "max")[0])


def mirrored(self: Communicator, tag: int, trades: Trades) -> None:
    """A trade in which nobody waits: each rank gets what it sends to others, or zeros."""
    for sends, receives in trades:
        for rank, received in receives.items():
            sent = sends.get(rank)
            received[...] = sent if sent is not None and sent.shape == received.shape else 0


def measure(case: str, rounds: int) -> None:
    """Run by each rank: alone, together and together without a wire, in turns."""
    ranks = parallel.world()
    alone, together = model_of(case, 1), model_of(case, ranks.size)
    times: dict[str, list[float]] = {"alone": [], "together": [], "own": []}
    wires = []
    for _ in range(rounds):
        times["together"].append(seconds_of_step(together, rows_of(case), ranks))
        times["alone"].append(seconds_of_step(alone, rows_of(case), ranks))
        if case not in SCHEDULES:
            with patch.object(Communicator, "_trade_all", mirrored):
                times["own"].append(seconds_of_step(together, rows_of(case), ranks))
        wires.append(parallel.measure_wire(rounds=5))
    rows = [(each.alpha, each.beta, each.start) for each in wires]
    wire = parallel.Wire(*map(median, zip(*rows, strict=True)))
    taken = {name: median(seconds) for name, seconds in times.items() if seconds}
    by_alone = together.simulate(rows_of(case), wire, taken["alone"])
    # `computing` is that of all ranks together, of which a rank of products does its part.
    whole = taken["own"] / together.simulate(rows_of(case), wire, 1.0).computing if "own" in taken else taken["alone"]
    simulated, measured = together.simulate(rows_of(case), wire, whole), taken["together"]
    if ranks.rank == 0:
        row = {"case": case, "ranks": ranks.size, "computing": whole, "measured": measured, **taken}
        row |= {"simulated": simulated.seconds, "ratio": round(simulated.seconds / measured, 3)}
        row |= {"of_alone": round(by_alone.seconds / measured, 3), "sent": simulated.sent}
        print(json.dumps(row | {name: getattr(wire, name) for name in WIRE}))


def curve(wire: parallel.Wire, computing: float) -> None:
    for exponent in range(11):
        step = model_of("resnet20", 1 << exponent).simulate(rows_of("resnet20"), wire, computing)
        print(json.dumps({"ranks": step.ranks, "seconds": step.seconds, "efficiency": round(step.efficiency, 3)}))


def launched(ranks: int, *arguments: str) -> dict[str, float]:
    line = command_of(ranks, [__file__, *arguments])
    environment = os.environ | {"NNC_THREADS": "1"}
    output = subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(output, end="", flush=True)
    return json.loads(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--case", default="")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--wire", type=float, nargs=2, metavar=("ALPHA", "BETA"))
    parser.add_argument("--computing", type=float, default=0.04)
    options = parser.parse_args()
    if options.case:
        return measure(options.case, options.rounds)
    if options.curve and options.wire:
        return curve(parallel.Wire(*options.wire), options.computing)
    if options.curve:
        row = launched(2, "--case", "resnet20", "--rounds", str(options.rounds))
        return curve(parallel.Wire(*(row[name] for name in WIRE)), row["computing"])
    for ranks in options.ranks:
        for case in options.cases:
            if case == "tensor" and 1024 % ranks:
                continue
            launched(ranks, "--case", case, "--rounds", str(options.rounds))
    return None


if __name__ == "__main__":
    sys.exit(main())
