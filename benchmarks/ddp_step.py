"""A step of ResNet-20 on two ranks of one thread beside PyTorch's DistributedDataParallel with gloo, in turns.

    python benchmarks/ddp_step.py [--rounds 3] [--steps 14]        needs torch

Both share a batch of 64 images. One JSON line: the median seconds of a step of `ours` and `theirs`, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median
from time import perf_counter, sleep

import torch
from rank_losses import BATCH, launched
from torch import distributed
from twins import resnet20

RANKS = 2


def train(rank: int, steps: int) -> None:
    """One rank of PyTorch's; the first prints the median seconds of a step."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    net = torch.nn.parallel.DistributedDataParallel(resnet20(torch).to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    x = torch.randn(BATCH // RANKS, 3, 32, 32).to(memory_format=torch.channels_last)
    y, times = torch.randint(0, 10, (BATCH // RANKS,)), []
    for _ in range(steps):
        began = perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(perf_counter() - began)
    if rank == 0:
        print(json.dumps({"seconds": median(times[2:])}))
    distributed.destroy_process_group()


def theirs(steps: int) -> float:
    line = [sys.executable, __file__, "--steps", str(steps), "--rank"]
    ranks = [subprocess.Popen([*line, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(RANKS)]
    outputs = [rank.communicate()[0] for rank in ranks]
    seconds: float = json.loads(outputs[0])["seconds"]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--rank", type=int, help="run this rank of PyTorch's alone")
    options = parser.parse_args()
    if options.rank is not None:
        return train(options.rank, options.steps)
    ours, others = [], []
    for _ in range(options.rounds):
        ours.append(launched(RANKS, "--steps", str(options.steps), "--run", "resnet20", "f32")["seconds"])
        sleep(1.0)
        others.append(theirs(options.steps))
        sleep(1.0)
    row = {"case": "resnet20", "ours": median(ours), "theirs": median(others), "torch": torch.__version__}
    print(json.dumps(row | {"ratio": round(median(ours) / median(others), 3)}))
    return None


if __name__ == "__main__":
    main()
