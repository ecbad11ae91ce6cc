"""How much of the time of sums of gradients goes by while others are computed; one JSON line.

    python benchmarks/hidden_sums.py [--rounds N] [--images N] [--beta SECONDS]

Two ranks of one thread train Inception-v1 with 24 images each, 26 MB of gradients, over the wire of this machine, which
is made slow: each trip sleeps `beta` seconds for each byte that a rank sends (8e-9 is 1 Gbit/s), as a network card
transfers without the processor. Medians of steps, in turns: `fast` without a delay, `behind` with sums waited for at
once (as a model with a memory_limit has them), `beside` with sums that go on beside computing.

    hidden = 1 - (beside - fast) / (behind - fast)          the goal is 0.9; `least` is that of the fastest steps

No more can be hidden than the backward pass takes: sums begin with its first gradients. With 8 images that is about
what the wire takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from statistics import median
from time import perf_counter, sleep
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from nnc import nn, parallel
from nnc.nn.zoo import inception_v1
from nnc.parallel.communicator import Communicator
from nnc.parallel.launching import command_of

# `Any`: bytes of arrays of any kind.
Trades = Sequence[tuple[Mapping[int, NDArray[Any]], Mapping[int, NDArray[Any]]]]
SIDE = 96
# No model is as large: a limit makes sums be waited for.
NO_LIMIT = 1 << 40

trade_all = Communicator._trade_all


def steps(rounds: int, images: int, beta: float) -> None:
    """Run by two ranks."""
    ranks = parallel.world()
    delay = [0.0]

    def slow(self: Communicator, tag: int, trades: Trades) -> None:
        far = [array.nbytes for sends, _ in trades for rank, array in sends.items() if rank != self.rank]
        sleep(sum(far) * delay[0])
        trade_all(self, tag, trades)

    beside, behind = (
        nn.Model(
            inception_v1(), (SIDE, SIDE, 3), optimizer=nn.SGD(0.01), mesh=parallel.Mesh(data=2), memory_limit=limit
        )
        for limit in (None, NO_LIMIT)
    )
    draw = np.random.default_rng(ranks.rank)
    x = draw.standard_normal((images, SIDE, SIDE, 3)).astype(np.float32)
    y = draw.integers(0, 1000, images)
    cases = {"fast": (beside, 0.0), "behind": (behind, beta), "beside": (beside, beta)}
    times: dict[str, list[float]] = {name: [] for name in cases}
    with patch.object(Communicator, "_trade_all", slow):
        for _ in range(rounds + 1):
            for name, (model, delay[0]) in cases.items():
                ranks.barrier()
                began = perf_counter()
                model.train_on_batch(x, y)
                times[name].append(perf_counter() - began)
    if ranks.rank == 0:
        taken = {name: median(seconds[1:]) for name, seconds in times.items()}
        shares = {"hidden": hidden(taken), "least": hidden({name: min(seconds[1:]) for name, seconds in times.items()})}
        row = {"case": "inception_v1", "images": images, "beta": beta, **shares}
        print(json.dumps(row | {name: round(seconds, 4) for name, seconds in taken.items()}))


def hidden(taken: Mapping[str, float]) -> float:
    """The share of the time of sums that goes by beside computing."""
    return round(1 - (taken["beside"] - taken["fast"]) / (taken["behind"] - taken["fast"]), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--beta", type=float, default=8e-9)
    parser.add_argument("--rank", action="store_true")
    options = parser.parse_args()
    if options.rank:
        return steps(options.rounds, options.images, options.beta)
    sizes = ["--rounds", str(options.rounds), "--images", str(options.images), "--beta", str(options.beta)]
    line = command_of(2, [__file__, "--rank", *sizes])
    subprocess.run(line, env=os.environ | {"NNC_THREADS": "1"}, check=True)
    return None


if __name__ == "__main__":
    main()
