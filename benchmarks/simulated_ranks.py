"""Steps on ranks of one machine beside what was foretold of them; one JSON line per case.

    python benchmarks/simulated_ranks.py [--ranks 2 3 4] [--rounds N]
    python benchmarks/simulated_ranks.py --curve

`measured` is the median time of a step (ResNet-20, and layers of 1,024 × 1,024 with the optimizer's state, gradients
and weights in shards), `simulated` what `Model.simulate` says with the wire of these ranks, measured in the same
processes, and with `computing`, the time of a process without a mesh while as many others do the same. The goal is a
`ratio` within 0.15 of 1. `--curve` prints what weak scaling is foretold for up to 1,024 ranks on the wire that is
measured with two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median
from time import perf_counter

import numpy as np

from nnc import nn, parallel
from nnc.nn.zoo import resnet20
from nnc.parallel.launching import command_of

ROWS, STEPS = 16, 12


def model_of(case: str, mesh: parallel.Mesh | None) -> nn.Model:
    if case == "resnet20":
        return nn.Model(resnet20(10), (32, 32, 3), optimizer=nn.SGD(0.1), mesh=mesh)
    net = nn.Sequential(*[nn.Sequential(nn.Dense(1024), nn.GELU()) for _ in range(8)], nn.Dense(16))
    return nn.Model(net, (1024,), mesh=mesh, zero_stage=3 if mesh else 0)


def seconds_of_step(model: nn.Model, ranks: parallel.Communicator) -> float:
    """Of the slowest rank."""
    draw = np.random.default_rng(ranks.rank)
    x = draw.standard_normal((ROWS, *model.input_shape)).astype(np.float32)
    y, taken = draw.integers(0, 10, ROWS), []
    for _ in range(STEPS):
        ranks.barrier()
        began = perf_counter()
        model.train_on_batch(x, y)
        taken.append(perf_counter() - began)
    return float(ranks.allreduce(np.array([median(taken[2:])]), "max")[0])


def measure(case: str, rounds: int) -> None:
    """Run by each rank: alone and together, in turns."""
    ranks = parallel.world()
    mesh = parallel.Mesh(data=ranks.size)
    alone, together = model_of(case, None), model_of(case, mesh)
    times: tuple[list[float], list[float]] = ([], [])
    wires = []
    for _ in range(rounds):
        for taken, model in zip(times, (alone, together), strict=True):
            taken.append(seconds_of_step(model, ranks))
        wires.append(parallel.measure_wire(rounds=5))
    wire = parallel.Wire(median(each.alpha for each in wires), median(each.beta for each in wires))
    computing, measured = map(median, times)
    simulated = together.simulate(ROWS, wire, computing)
    if ranks.rank == 0:
        row = {"case": case, "ranks": ranks.size, "computing": computing, "measured": measured}
        row |= {"simulated": simulated.seconds, "ratio": round(simulated.seconds / measured, 3)}
        print(json.dumps(row | {"alpha": wire.alpha, "beta": wire.beta, "sent": simulated.sent}))


def curve(alpha: float, beta: float, computing: float) -> None:
    for exponent in range(11):
        mesh = parallel.Mesh(data=1 << exponent)
        step = model_of("resnet20", mesh).simulate(ROWS, parallel.Wire(alpha, beta), computing)
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
    parser.add_argument("--case", default="")
    parser.add_argument("--curve", action="store_true")
    options = parser.parse_args()
    if options.case:
        return measure(options.case, options.rounds)
    if options.curve:
        row = launched(2, "--case", "resnet20", "--rounds", str(options.rounds))
        return curve(row["alpha"], row["beta"], row["computing"])
    for ranks in options.ranks:
        for case in ("resnet20", "shards"):
            launched(ranks, "--case", case, "--rounds", str(options.rounds))
    return None


if __name__ == "__main__":
    sys.exit(main())
