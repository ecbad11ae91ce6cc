"""One check of a machine's devices: the conformance table on many processes, and what else stands in PARTS.

    scripts/device-check [--kinds cuda vulkan] [--processes 14] [--every 1] [--seconds 120] [--out FOLDER]
    scripts/device-check --kinds cuda --seconds 100 --parts rows training habits zoo tiles models    (of a lent GPU)

Each part is a process of its own, so that one that ends badly takes nothing else along. Details are files in FOLDER.
The last line is JSON; the status is 0 where nothing failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
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
from nnc.errors import DeviceError
kind, first, step, done, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), open(sys.argv[5], "a")
for case in CASES[first::step][done:]:
    print(json.dumps(str(case)), file=out, flush=True)
    try:
        row = check_row(case, Device(kind))
    except DeviceError as error:
        print(json.dumps([str(case), 0, [], ["the device was lost: " + str(error)]]), file=out, flush=True)
        sys.exit(1)
    print(json.dumps([str(case), *row]), file=out, flush=True)
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
TRAINING = "import sys; from tests.conformance.device_training import main; sys.exit(main(sys.argv[1]))"
RATES = """
import runpy, sys
sys.argv = ["devices", "--device", sys.argv[1], "--seconds", "0.3"]
runpy.run_path("benchmarks/devices.py", run_name="__main__")
"""
HABITS = "import sys; from tests.conformance.device_habits import main; sys.exit(main(sys.argv[1]))"
ZOO = """
import sys
from tests.conformance.device_zoo import main
sys.argv = ["zoo", sys.argv[1], "--run", "--most", "130", "--seconds", "75"]
sys.exit(main())
"""
TILES = "import sys; from tests.conformance.device_tiles import main; sys.exit(main(sys.argv[1]))"
MODELS = """
import runpy, sys
sys.path.insert(0, "benchmarks")
device = sys.argv[1]
for more in ([], ["--half"]):
    sys.argv = ["models", "--device", device, "--seconds", "0.5", "--only", "gpt", *more]
    runpy.run_path("benchmarks/device_models.py", run_name="__main__")
"""
# By name: what is run, and the most seconds of it.
PARTS = {
    "rates": (RATES, 60), "training": (TRAINING, 60), "habits": (HABITS, 90), "zoo": (ZOO, 110), "tiles": (TILES, 60),
    "models": (MODELS, 90),
}  # fmt: skip
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


@dataclass
class Row:
    """A row of the table: how many runs agreed, why element types were refused, what failed."""

    case: str
    runs: int
    refused: list[str]
    failed: list[str]


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


class Part:
    """Every so many-th row in a process; where one ends badly another goes on behind the row that did it."""

    def __init__(self, kind: str, first: int, step: int, folder: Path) -> None:
        self.file, self.log = folder / f"{kind}-{first}.jsonl", folder / f"{kind}-{first}.log"
        self._arguments, self._done = [kind, str(first), str(step)], 0
        self._start()

    def _start(self) -> None:
        arguments = [*self._arguments, str(self._done), str(self.file)]
        with self.log.open("a") as log:
            self.process = started(PART, arguments, log)

    def rows(self) -> list[Row]:
        """Those that came to an end, and those at which a process ended without a word."""
        lines = [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        rows: list[Row] = []
        begun = ""
        for line in lines:
            if isinstance(line, list):
                rows.append(Row(*line))
                begun = ""
            else:
                rows += [Row(begun, 0, [], ["its process ended"])] if begun else []
                begun = "" if line == "end" else line
        if begun and self.process.poll() is not None:
            rows.append(Row(begun, 0, [], [f"its process ended with {self.process.poll()}"]))
        return rows

    def is_over(self) -> bool:
        """Whether all rows are done; a process that ended before that has a successor from here on."""
        if self.process.poll() is None:
            return False
        if self.process.poll() == 0:
            return True
        done, self._done = self._done, len(self.rows())
        if self._done == done:
            return True
        self._start()
        return False


def conformance(kind: str, options: argparse.Namespace, out: Path) -> Summary:
    """All rows on as many processes."""
    deadline, folder, step = time.monotonic() + options.seconds, Path(tempfile.mkdtemp()), options.every
    parts = [Part(kind, number * step, options.processes * step, folder) for number in range(options.processes)]
    waiting = list(parts)
    while waiting and time.monotonic() < deadline:
        waiting = [part for part in waiting if not part.is_over()]
        time.sleep(0.2)
    for part in waiting:
        part.process.kill()
        part.process.wait()
    made = summarized(kind, [row for part in parts for row in part.rows()], out)
    for part in parts:
        if part.process.poll() != 0:
            made.unfinished += 1
            print(f"a part did not finish, after {len(part.rows())} rows: {part.log.read_text()[-300:]}", flush=True)
    return made


def summarized(kind: str, rows: list[Row], out: Path) -> Summary:
    """Count, and print what failed: first how often each reason, then rows."""
    made = Summary(kind, len(rows), sum(row.runs for row in rows))
    made.refused = sum(bool(row.refused) for row in rows)
    failures = [(row.case, reason) for row in rows for reason in row.failed]
    made.failed = len(failures)
    (out / f"{kind}-failures.txt").write_text("\n".join(": ".join(pair) for pair in failures))
    (out / f"{kind}-rows.jsonl").write_text("\n".join(json.dumps(asdict(row)) for row in rows))
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
    parser.add_argument("--parts", nargs="+", choices=["rows", *PARTS], default=["rows", "rates", "training"])
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "device-check")))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("NNC_CACHE_DIR", tempfile.mkdtemp())
    printed("facts", FACTS, options.kinds, options.out, 60)
    summaries, sound = list[Summary](), True
    for kind in options.kinds:
        if not printed(f"first-{kind}", FIRST, [kind], options.out, 60):
            sound = False
            continue
        if "rows" in options.parts:
            summaries.append(conformance(kind, options, options.out))
        for name, (code, seconds) in PARTS.items():
            if name in options.parts:
                sound &= printed(f"{name}-{kind}", code, [kind], options.out, seconds)
    sound &= not any(summary.failed or summary.unfinished for summary in summaries)
    print(json.dumps([asdict(summary) for summary in summaries]))
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
