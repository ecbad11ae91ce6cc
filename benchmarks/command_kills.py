"""Commands that are stopped at random instants by SIGKILL, SIGTERM or SIGINT, then run again; one JSON line.

    python benchmarks/command_kills.py build|finetune|serve [--count N] [--first SEED]

Seeds take turns: SIGKILL, SIGTERM, SIGINT, at any instant from the start to the end of a run that nobody stops (of a
server, to a second behind its first answer). All runs of a seed have a folder of their own, and the next eleven seeds
have it too: files of before, and kernels and programs that a killed process was writing. Wrong are

    another code than -9, 143 or 130 (a process that had not come to `main` yet ends by the signal itself, and so does
    one that has nothing to put in order: -15, -2, which a shell shows as 143 and 130),
    a file, behind a signal, that is neither that of a calm run, nor one that can be read, nor a hidden `.part`,
    and a run to the end afterwards, or an answer of a server, that gives other bytes than a calm one.

`traces` are tracebacks that Python wrote where SIGINT came while modules were imported, before `main`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.language.small_models import write_text_model

import nnc

COMMANDS = {
    "build": "build digits --output output",
    "serve": "serve tiny.gguf --context 64",
    "finetune": "finetune tiny.gguf --data texts.txt --output output --context 16 --rank 2 --epochs 6 --batch 2"
    " --accumulate 2 --seed 3",
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {signal.SIGKILL: {-9}, signal.SIGTERM: {143, -15}, signal.SIGINT: {130, -2}}
TURNS = 12
"""Seeds that share a folder."""
PATIENCE = 60
TEXT = "in the hello the in he hello the in the he " * 8
ASKED = {"messages": [{"role": "user", "content": "hello the"}], "max_tokens": 8, "temperature": 0}


@dataclass
class Place:
    """A folder with a command's inputs, its outputs, and the cache of kernels and programs."""

    name: str
    folder: Path
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def command(self) -> list[str]:
        """What is run; a training goes on where there is a checkpoint."""
        if self.name == "serve":
            return [*COMMANDS[self.name].split(), "--port", str(free_port())]
        resume = self.name == "finetune" and (self.folder / "output.checkpoint.safetensors").exists()
        return [*COMMANDS[self.name].split(), *(["--resume"] if resume else [])]

    def start(self) -> subprocess.Popen[str]:
        """The command in a process of its own."""
        command = (sys.executable, "-P", "-m", "nnc", *self.command())
        environment = {**os.environ, "NNC_CACHE_DIR": str(self.folder / "cache")}
        return subprocess.Popen(
            command,
            env=environment,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def files(self) -> dict[str, bytes]:
        """What lies in the output folder."""
        return {path.name: path.read_bytes() for path in sorted((self.folder / "output").glob("*"))}


def place_of(name: str, folder: Path) -> Place:
    """The inputs of a command, written."""
    if name != "build":
        write_text_model(folder / "tiny.gguf")
        (folder / "texts.txt").write_text(TEXT, encoding="utf-8")
    return Place(name, folder)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def answer(port: int) -> str | None:
    """The text of a server; None where the connection is cut or refused."""
    body = Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(ASKED).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urlopen(body, timeout=PATIENCE) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])
    except (URLError, HTTPException, ConnectionError, TimeoutError):
        return None


def asking(process: subprocess.Popen[str], answers: list[str]) -> threading.Thread:
    """Ask a server again and again until it is gone."""
    port = int(process.args[-1])  # type: ignore[index]  # a tuple of texts

    def ask() -> None:
        while process.poll() is None:
            text = answer(port)
            if text is None:
                time.sleep(0.02)
            else:
                answers.append(text)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


@dataclass(frozen=True)
class Calm:
    """Seconds of a run that nobody stops, with an empty cache and with a full one; its files, or its answer."""

    cold: float
    warm: float
    files: Mapping[str, bytes]
    text: str


def calm(name: str) -> Calm:
    """Two runs in one folder."""
    with TemporaryDirectory() as folder:
        place, seconds, answers = place_of(name, Path(folder)), list[float](), list[str]()
        for _ in range(2):
            (place.folder / "output.checkpoint.safetensors").unlink(missing_ok=True)
            began, process = time.perf_counter(), place.start()
            if name == "serve":
                answers += answered(process)
            _, told = process.communicate()
            assert process.returncode in {0, *CODES[signal.SIGTERM]}, told
            seconds.append(time.perf_counter() - began + (name == "serve"))
        return Calm(seconds[0], seconds[1], place.files(), "".join(answers[:1]))


def answered(process: subprocess.Popen[str]) -> list[str]:
    """The answers of a server up to the first one at least, with which it is asked to end."""
    answers: list[str] = []
    thread = asking(process, answers)
    while not answers and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=PATIENCE)
    thread.join()
    return answers


def stop(place: Place, seed: int, longest: float, wanted: Calm) -> None:
    """One run that is stopped, and what is wrong with how it ended and what it left."""
    number, answers = SIGNALS[seed % 3], list[str]()
    process = place.start()
    thread = asking(process, answers) if place.name == "serve" else None
    time.sleep(Random(seed).uniform(0.0, longest))
    process.send_signal(number)
    began = time.perf_counter()
    _, told = process.communicate(timeout=PATIENCE)
    if thread is not None:
        thread.join()
    place.counts[number.name if process.returncode else "ended before"] += 1
    place.counts["answers"] += len(answers)
    wrong = [] if process.returncode in {0, *CODES[number]} else [f"code {process.returncode}"]
    if "Traceback" in told:
        place.counts["traces"] += 1
        wrong += [] if process.returncode == -signal.SIGINT else [f"a trace: {told[-300:]}"]
    wrong += ["another answer"] if set(answers) - {wanted.text} else []
    wrong += left(place, wanted.files)
    wrong += ["took long to end"] if time.perf_counter() - began > PATIENCE / 4 else []
    place.failures += [f"seed {seed}, {number.name}: {fault}" for fault in wrong]


def left(place: Place, wanted: Mapping[str, bytes]) -> list[str]:
    """What is wrong with the files that a stopped run left."""
    wrong = list[str]()
    for name, content in place.files().items():
        if name.startswith(".") and name.endswith(".part"):
            place.counts["hidden parts"] += 1
        elif name not in wanted:
            wrong.append(f"a file {name}")
        elif place.name == "build" and content != wanted[name]:
            wrong.append(f"{name} of {len(content)} bytes")
        elif name.endswith(".safetensors"):
            nnc.load(place.folder / "output" / name)
        elif name.endswith(".json"):
            json.loads(content)
    return wrong


def finish(place: Place, seed: int, wanted: Calm) -> float:
    """Run to the end, for the bytes of a calm run; its seconds."""
    process, began = place.start(), time.perf_counter()
    answers = answered(process) if place.name == "serve" else []
    _, told = process.communicate()
    if place.name == "serve":
        right = set(answers) == {wanted.text}
    else:
        right = process.returncode == 0 and place.files() == wanted.files
    place.failures += [] if right else [f"behind seed {seed}: code {process.returncode}, {told[-300:]}"]
    place.counts["finished"] += 1
    place.counts["same bytes"] += right
    return time.perf_counter() - began + (place.name == "serve")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build", "finetune", "serve"))
    parser.add_argument("--count", type=int, default=60, help="runs that are stopped, at least (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    options = parser.parse_args()
    # A shell's background ignores SIGINT, and so would what is started from here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = calm(options.command)
    counts, failures, seed, warm = Counter[str](), list[str](), options.first, wanted.warm
    while sum(counts[number.name] for number in SIGNALS) < options.count:
        with TemporaryDirectory() as folder:
            place = place_of(options.command, Path(folder))
            for turn in range(TURNS):
                stop(place, seed + turn, warm if turn else wanted.cold, wanted)
            seed += TURNS
            # As long as it takes beside what else runs on this machine now.
            warm = finish(place, seed - 1, wanted)
        counts += place.counts
        failures += place.failures
    seconds = [round(wanted.cold, 2), round(wanted.warm, 2)]
    row = {"command": options.command, "cold and warm seconds": seconds, **counts, "failures": failures}
    print(json.dumps(row))
    return 1 if failures or counts["same bytes"] < counts["finished"] else 0


if __name__ == "__main__":
    sys.exit(main())
