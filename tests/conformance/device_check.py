"""One check of a machine's devices: the conformance table on many processes, a training step, rates; prints little.

    scripts/device-check [--kinds cuda vulkan] [--processes 14] [--every 1] [--seconds 170] [--out FOLDER]

Each part is a process of its own, so that one that ends badly takes nothing else along. Details are files in FOLDER.
The last line is JSON; the status is 0 where nothing failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
MOST_PRINTED, MOST_LETTERS = 30, 240
PART = """
import json, sys
from tests.conformance.cases import CASES
from tests.conformance.on_devices import check_row
from nnc.core.values.device import Device
kind, first, step, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), open(sys.argv[4], "a")
for case in CASES[first::step]:
    print(json.dumps([str(case), *check_row(case, Device(kind))]), file=out, flush=True)
print(json.dumps("end"), file=out, flush=True)
"""
FACTS = """
import json, platform, sys
import llvmlite, numpy
import nnc
from nnc.core.running.devices import DEVICES
from nnc.core.values.device import Device
for kind in sys.argv[1:]:
    try:
        facts = DEVICES.driver(Device(kind)).facts(Device(kind))
        print(kind, facts.name, facts.memory_bytes, facts.subgroup, facts.group_threads, facts.group_bytes,
              *sorted(facts.features))
    except Exception as error:
        print(kind, "absent:", error)
print("python", platform.python_version(), "numpy", numpy.__version__, "llvmlite", llvmlite.__version__)
"""
FIRST = """
import sys, time
import numpy as np
import nnc
from nnc.core.values.tensor import Tensor
from nnc.core.values.device import Device, CPU
from tests.conformance.runs import run, REFERENCE, check_agreement
from tests.conformance.cases import CASES
from tests.conformance.on_devices import check_case
from nnc.core.running.dispatch import DISPATCHER
device = Device(sys.argv[1])
began = time.perf_counter()
x = np.arange(1 << 20, dtype=np.float32)
assert (Tensor.from_numpy(x).to(device).to(CPU).numpy() == x).all()
print("copies", round(time.perf_counter() - began, 2), "s")
for name in ("add", "gemm"):
    began = time.perf_counter()
    case = next(case for case in CASES if case.op.name == name)
    print(name, check_case(DISPATCHER.backend(device.kind), case, device), round(time.perf_counter() - began, 2), "s")
"""


@dataclass
class Summary:
    """What came of the rows of one kind of device."""

    kind: str
    rows: int = 0
    runs: int = 0
    failed: int = 0
    refused: int = 0
    unfinished: int = 0


def environment() -> dict[str, str]:
    """That of a process of a part: one worker of the host each."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "NNC_THREADS": "1"}


def started(code: str, arguments: list[str], log: IO[str]) -> subprocess.Popen[str]:
    """A process that runs this code."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment(), stdout=log, stderr=log, text=True
    )


def printed(title: str, code: str, arguments: list[str], out: Path, seconds: float) -> bool:
    """Run it and print the end of what it says; whether all went well."""
    log = out / f"{title}.log"
    with log.open("w") as file:
        process = started(code, arguments, file)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    text = log.read_text()[-1800:]
    print(f"== {title}: status {process.poll()}\n{text}", flush=True)
    return process.poll() == 0


def conformance(kind: str, options: argparse.Namespace, out: Path) -> Summary:
    """All rows on as many processes."""
    count, deadline = options.processes, time.monotonic() + options.seconds
    files = [out / f"{kind}-{number}.jsonl" for number in range(count)]
    logs = [(out / f"{kind}-{number}.log").open("w") for number in range(count)]
    parts = [
        started(PART, [kind, str(number * options.every), str(count * options.every), str(file)], log)
        for number, (file, log) in enumerate(zip(files, logs, strict=True))
    ]
    for part in parts:
        try:
            part.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            part.kill()
    return summarized(kind, files, [Path(log.name) for log in logs])


def summarized(kind: str, files: list[Path], logs: list[Path]) -> Summary:
    """Count, and print what failed: first how often each reason, then rows."""
    made, failures = Summary(kind), list[tuple[str, str]]()
    for file, log in zip(files, logs, strict=True):
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        if rows[-1:] != ["end"]:
            made.unfinished += 1
            print(f"part {file.name} did not finish, after {rows[-1:]}: {log.read_text()[-600:]}", flush=True)
        for row in rows:
            if row == "end":
                continue
            name, runs, refused, failed = row
            made.rows, made.runs, made.refused = made.rows + 1, made.runs + runs, made.refused + bool(refused)
            failures += [(name, reason) for reason in failed]
    made.failed = len(failures)
    (files[0].parent / f"{kind}-failures.txt").write_text("\n".join(": ".join(pair) for pair in failures))
    reasons = Counter(reason[:60] for _, reason in failures)
    for reason, times in reasons.most_common(8):
        print(f"  {times} x {reason}")
    for name, reason in failures[:MOST_PRINTED]:
        print(f"  {name}: {reason[:MOST_LETTERS]}", flush=True)
    return made


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["cuda"])
    parser.add_argument("--processes", type=int, default=max((os.cpu_count() or 2) - 2, 1))
    parser.add_argument("--every", type=int, default=1, help="each how many rows of the table")
    parser.add_argument("--seconds", type=float, default=120, help="for the rows of one kind")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "device-check")))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("NNC_CACHE_DIR", str(options.out.resolve() / "cache"))
    printed("facts", FACTS, options.kinds, options.out, 60)
    summaries, sound = list[Summary](), True
    for kind in options.kinds:
        if not printed(f"first-{kind}", FIRST, [kind], options.out, 60):
            sound = False
            continue
        summaries.append(conformance(kind, options, options.out))
        rates = "import runpy, sys; sys.argv = ['devices', '--device', sys.argv[1], '--seconds', '0.3']"
        rates += "; runpy.run_path('benchmarks/devices.py', run_name='__main__')"
        sound &= printed(f"rates-{kind}", rates, [kind], options.out, 60)
        training = "from tests.nn.device_training import main; import sys; sys.exit(main(sys.argv[1]))"
        if (ROOT / "tests" / "nn" / "device_training.py").exists():
            sound &= printed(f"training-{kind}", training, [kind], options.out, 60)
    sound &= not any(summary.failed or summary.unfinished for summary in summaries)
    print(json.dumps([asdict(summary) for summary in summaries]))
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
