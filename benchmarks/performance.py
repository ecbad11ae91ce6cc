"""All figures of this machine, into `results/PROCESSOR.json` and from there into `docs/performance.md`.

    python benchmarks/performance.py [--suite NAME ...] [--only TEXT] [--level LEVEL ...] [--threads N,N] [--processor]
                                    [--peers NAME ...]

Each suite is a benchmark of this folder in a process of its own, for each level and number of threads, which is held to
as many processors. At `x86-64-v3` our code is made for AVX2, and peers are held to it where they can be
(`figures.HELD`). Every row is kept as soon as it is printed, in the place of the one before it: whatever breaks a run
off, files are whole, and what was measured stays. With `--only` cases whose name holds the text are measured, and other
rows stay as they are; without it rows of cases that are no more go. `--processor` counts the process's own time, for a
busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from figures import AVX2, FOLDER, HELD, LEVELS, NATIVE, Results, render, results_of

from nnc.backends.llvm.run.host import ENVIRONMENT_VARIABLE
from nnc.backends.llvm.run.profile import host_processor

HERE = Path(__file__).resolve().parent
PEERS = ("numpy", "torch", "onnxruntime", "openvino", "jax", "mlx")
CLOCKS = {False: "perf_counter", True: "process_time"}


@dataclass(frozen=True, slots=True)
class Suite:
    """A script and its arguments, the key under which rows name their case, and which options it has.

    Of a script that takes no text but names, `cases` are these.
    """

    script: str
    arguments: tuple[str, ...] = ()
    key: str = "case"
    own_time: bool = False
    takes_peers: bool = False
    cases: tuple[str, ...] = ()

    def words(self, threads: int, options: argparse.Namespace) -> list[str]:
        """The command; an empty list where no case is meant."""
        only = options.only
        words = [sys.executable, str(HERE / self.script), *self.arguments]
        if self.cases:
            chosen = [case for case in self.cases if only in case]
            return [*words, "--only", *chosen] if chosen else []
        words += ["--threads", str(threads), *(["--only", only] if only else [])]
        words += ["--processor"] if options.processor and self.own_time else []
        return [*words, "--peers", *options.peers] if options.peers and self.takes_peers else words


SUITES: Mapping[str, Suite] = {
    "models": Suite("models.py", ("--repeats", "9", "--seconds", "4"), own_time=True, takes_peers=True),
    "kernels": Suite("kernels.py", ("--repeats", "2"), own_time=True),
    "products": Suite("kernels.py", ("--sweep", "--repeats", "8"), own_time=True),
    "int8": Suite("int8.py", ("--repeats", "9", "--seconds", "20"), own_time=True),
    "eager": Suite("eager.py", ("--rounds", "5")),
    "compile": Suite("compile_time.py", key="network", cases=("digits", "resnet20", "resnet50")),
}


def environment(level: str, threads: int) -> dict[str, str]:
    """Of the processes: as many threads on all sides, and at AVX2 the settings of all that can be held to it."""
    held = {name: value for one in HELD.values() for name, value in one.items()} if level == AVX2 else {}
    ours = {ENVIRONMENT_VARIABLE: level} if level != NATIVE else {}
    counts = {name: str(threads) for name in ("NNC_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    return {**os.environ, **counts, **held, **ours}


def lines(words: Sequence[str], level: str, threads: int) -> Iterator[dict[str, Any]]:
    """The lines of JSON that a process prints; CalledProcessError where it fails."""
    begin = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))]
    with subprocess.Popen(
        [*begin, *words], cwd=HERE, env=environment(level, threads), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def revision() -> str:
    """Of this checkout; with + where files differ."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "../src", "*.py")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def results_here() -> Results:
    """Of this kind of processor: what is known of it, or nothing yet."""
    name = llvm.get_host_cpu_name()
    path = FOLDER / f"{name}.json"
    return results_of(path.read_text()) if path.exists() else Results(name, host_processor())


def measure(kept: Results, name: str, level: str, threads: int, options: argparse.Namespace) -> None:
    suite, now = SUITES[name], datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    words = suite.words(threads, options)
    run: dict[str, Any] = {
        "date": now[:10],
        "clock": CLOCKS[options.processor and suite.own_time],
        "load": round(os.getloadavg()[0], 2),
        "peak_gflops": 0.0,
        "revision": revision(),
        "versions": versions(),
        "held": HELD if level == AVX2 else {},
    }
    label = f"{now} {name}"
    for row in lines(words, level, threads) if words else ():
        if suite.key not in row:
            run |= {key: value for key, value in row.items() if key in run}
            continue
        case = row.pop(suite.key)
        kept.runs[label] = run
        kept.put({"suite": name, "level": level, "threads": threads, "run": label, "case": case, **row})
        kept.save()
        print(json.dumps({"level": level, "threads": threads, "case": case, **row}), flush=True)
    if not options.only and label in kept.runs:
        kept.keep_only((name, level, threads), label)
        kept.save()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", nargs="*", choices=SUITES, default=list(SUITES), help="which benchmarks")
    parser.add_argument("--only", default="", help="measure the cases whose name contains this text")
    parser.add_argument("--level", nargs="*", choices=LEVELS, default=[NATIVE], help="what code is made for")
    parser.add_argument("--threads", default=str(len(os.sched_getaffinity(0))), help="how many, as 1,2")
    parser.add_argument("--peers", nargs="*", default=[], help="whom models.py compares with; all where none is named")
    parser.add_argument("--processor", action="store_true", help="count time on processors where a benchmark can")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    kept, failed = results_here(), 0
    try:
        for level in options.level:
            for threads in map(int, options.threads.split(",")):
                for name in options.suite:
                    try:
                        measure(kept, name, level, threads, options)
                    except subprocess.CalledProcessError as error:
                        failed = 1
                        print(
                            f"{name}: ended with {error.returncode}; rows from there on stay as they were",
                            file=sys.stderr,
                        )
    finally:
        render()
    return failed


if __name__ == "__main__":
    sys.exit(main())
