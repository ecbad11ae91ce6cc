"""What takes too long for every change, in turn: all cases of all tests, campaigns, kills, a soak, peers.

    scripts/nightly [--share 1.0] [--only PART …] [--output FOLDER]
        [--model FILE.gguf] [--llama PYTHON] [--runtimes PYTHON]

Each part is a process of its own, whose text goes to `OUTPUT/PART.log`; a line says how it ended and how long it took.
Seeds follow the date, so that nights try other ones, and are in the lines. `--share 0.01` does a hundredth of each. A
`model` is served to 64 clients and measured; `llama` is an interpreter that has xllamacpp, `runtimes` one that has
onnxruntime and openvino. Ends with 1 where a part does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# Programs of each campaign in a night: about seven hours of two cores together.
CAMPAIGNS = {
    "calls": 100_000, "plans": 20_000, "passes": 20_000, "damage": 20_000, "files": 200_000, "loops": 20_000,
    "allocations": 12, "interrupts": 400, "interleavings": 400, "threads": 400,
}  # fmt: skip
KILLS, SOAK_SECONDS, LEAST_SECONDS = 500, 600, 10
SEEDS_OF_A_DAY, DAYS = 1_000_000, 2_000


def parts_of(options: argparse.Namespace, first: int) -> dict[str, list[str]]:
    """The command of each part."""
    share, python = options.share, sys.executable
    parts: dict[str, list[str]] = {}
    if share >= 1:
        # Folders that are named run all of their cases, those too that take turns in scripts/test.
        parts["tests"] = [
            python,
            "-P",
            "-m",
            "pytest",
            "-q",
            "-n",
            "auto",
            "--dist",
            "worksteal",
            "tests",
            "src",
            "examples",
        ]
        parts["types"] = [python, "-P", "-m", "tests.fuzz.command", "types"]
    for name, count in CAMPAIGNS.items():
        numbers = ["--first", str(first), "--count", str(max(round(count * share), 1))]
        parts[name] = [python, "-P", "-m", "tests.fuzz.command", name, *numbers]
    kills = ["--kills", str(max(round(KILLS * share), 1)), "--first", str(first)]
    parts["kills"] = [python, str(HERE / "kills.py"), *kills]
    if options.model:
        model, llama = str(options.model), ["--peer", options.llama] if options.llama else []
        seconds = str(max(SOAK_SECONDS * share, LEAST_SECONDS))
        parts["soak"] = [python, str(HERE / "serving.py"), model, "--seconds", seconds, "--seed", str(first), *llama]
        parts["language"] = [python, str(HERE / "language.py"), model, "--threads", "1", "2", *llama]
        parts["memory"] = [python, str(HERE / "language_memory.py"), model]
    peers = ["--onnxruntime", options.runtimes, "--openvino", options.runtimes] if options.runtimes else []
    parts["decoder"] = [python, str(HERE / "decoder_peers.py"), *peers]
    return parts


def run(name: str, command: list[str], log: Path) -> int:
    """The status of a part; its text is in the log."""
    began = time.monotonic()
    with open(log, "w") as text:
        status = subprocess.run(command, stdout=text, stderr=subprocess.STDOUT, cwd=HERE.parent).returncode
    last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
    ended = f"status {status}" if status else "ended well"
    print(f"{name}: {ended}, {time.monotonic() - began:.0f} s: {last}", flush=True)
    return status


def main() -> int:
    """A line for each part."""
    parser = argparse.ArgumentParser(prog="scripts/nightly", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--llama", metavar="PYTHON")
    parser.add_argument("--runtimes", metavar="PYTHON")
    parser.add_argument("--output", type=Path, default=Path("nightly"))
    options = parser.parse_args()
    if not 0 < options.share <= 1:
        parser.error(f"--share: got {options.share}; need more than 0, at most 1")
    if options.model and not options.model.exists():
        parser.error(f"--model: got {options.model}; need a file that there is")
    first = int(time.time() // 86_400) % DAYS * SEEDS_OF_A_DAY
    parts = parts_of(options, first)
    if unknown := sorted(set(options.only or ()) - set(parts)):
        parser.error(f"--only: got {', '.join(unknown)}; need some of {', '.join(parts)}")
    parts = {name: command for name, command in parts.items() if not options.only or name in options.only}
    options.output.mkdir(parents=True, exist_ok=True)
    print(f"{len(parts)} parts, seeds from {first} on, texts in {options.output}", flush=True)
    return int(sum(run(name, command, options.output / f"{name}.log") != 0 for name, command in parts.items()) > 0)


if __name__ == "__main__":
    sys.exit(main())
