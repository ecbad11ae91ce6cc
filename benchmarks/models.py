"""Milliseconds of whole training steps and predictions, ours and the peers' in turns; one JSON line per case.

    python benchmarks/models.py [--threads N] [--repeats N] [--seconds N] [--only TEXT] [--peers NAME ...] [--processor]
                                [--memory] [--half]

Peers are torch eager, torch.compile, onnxruntime, OpenVINO and JAX; one that is absent or cannot run a case is skipped,
and `skipped` says why. All run in this process, on as many threads, on inputs of the same shapes, in f32; training is
plain stochastic gradient descent. `ratio` is ours / the best peer's, of medians; `ratio_of_best` of the fastest runs,
where the fastest peer is `best_peer`. `share` is the part of the peak of f32 of as many threads, measured, that our
fastest run reaches with the operations of its graph; minimal filtering does with fewer.

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
from collections.abc import Callable, Mapping, Sequence

from cases import Case, predictions, trainings
from peers import PEERS, Run
from process import high_water

from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.peak import peak
from nnc.core.settings import SETTINGS

Clock = Callable[[], float]

PAUSE = 0.1
SPREAD = 1.5
LEAST, LONG = 2, 100.0  # rounds; milliseconds of a run beside which the waking of workers is nothing
STEPS = 3  # of a process whose memory is measured


def milliseconds(run: Run, clock: Clock) -> float:
    start = clock()
    run()
    return (clock() - start) * 1e3


def sides_of(case: Case, names: Sequence[str], threads: int) -> tuple[dict[str, Run], int, dict[str, str]]:
    """What runs, the operations of ours, and why others do not run; the first run of each compiles and allocates."""
    ours = case.ours()
    sides, skipped = {"ours": ours.run}, {}
    ours.run()
    for name in names:
        try:
            run = PEERS[name](threads, case.offer)
            run()
            sides[name] = run
        except Exception as error:  # whatever a peer raises is the reason why it is skipped
            skipped[name] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
    return sides, ours.operations, skipped


def rounds(sides: Mapping[str, Run], options: argparse.Namespace, clock: Clock) -> dict[str, list[float]]:
    """Times of runs in turns, each of a short one right after one that wakes its workers; idle ones spin for 40 ms."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    end = time.monotonic() + options.seconds
    for turn in range(options.repeats):
        if turn >= LEAST and time.monotonic() > end:
            break
        for name, run in sides.items():
            time.sleep(PAUSE)
            if not times[name] or times[name][-1] < LONG:
                run()
            times[name].append(milliseconds(run, clock))
    return times


def measure(case: Case, options: argparse.Namespace, threads: int, peak: float, clock: Clock) -> dict[str, object]:
    sides, operations, skipped = sides_of(case, options.peers, threads)
    times = rounds(sides, options, clock)
    row: dict[str, object] = {"case": case.name}
    medians = {name: statistics.median(values) for name, values in times.items()}
    bests = {name: min(values) for name, values in times.items()}
    for name in sides:
        row |= {name: round(medians[name], 3), f"{name}_best": round(bests[name], 3)}
    peers = [name for name in sides if name != "ours"]
    if peers:
        row["best_peer"] = min(peers, key=bests.__getitem__)
        row["ratio"] = round(medians["ours"] / min(medians[name] for name in peers), 3)
        row["ratio_of_best"] = round(bests["ours"] / min(bests[name] for name in peers), 3)
    if not options.half:
        row["share"] = round(operations / bests["ours"] * 1e3 / peak, 3)
    row |= {"gflop": round(operations / 1e9, 2), "rounds": len(times["ours"])}
    row["disturbed"] = [name for name in sides if medians[name] > SPREAD * bests[name]]
    return row | {"skipped": skipped}


def peak_of(name: str, side: str, threads: int) -> int:
    """The most bytes that this process has in memory when `side` takes some steps of the case of this name."""
    case = next(case for cases in (trainings, predictions) for case in cases() if case.name == name)
    run = case.ours().run if side == "ours" else PEERS[side](threads, case.offer)
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
    parser.add_argument("--seconds", type=float, default=60.0, help="no further round of a case after so many")
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
    limit = peak(engine(), workers=threads)
    machine = {"threads": threads, "clock": clock.__name__, "load": round(os.getloadavg()[0], 2)}
    print(json.dumps({**machine, "peak_gflops": round(limit / 1e9, 1)}), flush=True)
    for cases in (trainings, predictions):
        for case in cases(options.half):
            if options.only not in case.name:
                continue
            if options.memory:
                row = footprints(case.name, options.peers, threads)
            else:
                row = measure(case, options, threads, limit, clock)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
