"""A soak of `nnc serve`: clients that ask, leave and send what is no request; each answer is that of a lone run.

    python benchmarks/serving.py model.gguf --clients 64 --seconds 600 --slots 4 --seed 0 [--threads 1] [--peer PYTHON]

With an interpreter that has xllamacpp, llama.cpp's server is asked the same behind ours, with as many slots. Prints the
median and the 99th percentile of whole answers, tokens a second, and the server's memory at the start and at the end.
Ends with 1 where an answer is another one than alone, where memory grew by more than 32 MB, or where the server does
not end within ten seconds of SIGTERM.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from llama_peer import LLAMA_CPP

import nnc.language

# What several begin with has a page of tokens, and a part of another one.
SYSTEM = "You answer in one sentence, in plain words, and say so where you do not know. " * 18
PROMPTS = (
    "Once upon a time", "The capital of France is", "def add(a, b):", "1, 2, 3, 4,", f"{SYSTEM}What is rain?",
    f"{SYSTEM}Who wrote Faust?",
)  # fmt: skip
LENGTHS, HEATS, SEEDS = (4, 16, 40), (0, 0.8), (0, 1)
MOST_GROWTH = 32 << 20
PEER = (
    LLAMA_CPP
    + """
import signal, sys
file, threads, context, slots, port = sys.argv[1], *map(int, sys.argv[2:])
server = llama_server(file, threads, context, slots, port)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.pause()
"""
)
Key = tuple[str, int, float, int]
WRONG = (b"{", b"[]", b'{"prompt": 1}', b'{"prompt": "a", "max_tokens": -1}', b"x" * (1 << 21))


class Soak:
    """Clients of a server, and what they saw."""

    def __init__(self, port: int, alone: dict[Key, str] | None, seed: int) -> None:
        self.port, self.alone, self._seed = port, alone, seed
        self.counts: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.wrong: list[str] = []

    def client(self, number: int, until: float) -> None:
        """Ask until the time is over."""
        generator = random.Random(self._seed * 1000 + number)
        while time.monotonic() < until:
            try:
                self._ask(generator)
            except (OSError, http.client.HTTPException):
                self.counts["not connected"] += 1

    def _ask(self, generator: random.Random) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        headers = {"Content-Type": "application/json"}
        if generator.random() < 0.05:
            connection.request("POST", "/v1/completions", generator.choice(WRONG), headers)
            self.counts["refused" if connection.getresponse().status in (400, 413) else "wrong status"] += 1
            return
        choice = generator.choice
        key = choice(PROMPTS), choice(LENGTHS), choice(HEATS), choice(SEEDS)
        body = dict(zip(("prompt", "max_tokens", "temperature", "seed"), key, strict=True))
        leaves = generator.random() < 0.1
        began = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps({**body, "stream": leaves}), headers)
        answer = connection.getresponse()
        if answer.status == 429:
            self.counts["busy"] += 1
            time.sleep(0.1)
        elif leaves:
            answer.read(1)
            connection.close()
            self.counts["left"] += 1
        else:
            held = json.loads(answer.read())
            self.seconds.append(time.perf_counter() - began)
            self.counts["answered"] += 1
            self.counts["tokens"] += held["usage"]["completion_tokens"]
            if self.alone is not None and held["choices"][0]["text"] != self.alone[key]:
                self.wrong.append(f"{body}: {held['choices'][0]['text']!r}")


def resident(process: int) -> int:
    """Bytes of a process."""
    rows = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS")) * 1024


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def soaked(name: str, command: list[str], soak: Soak, options: argparse.Namespace) -> bool:
    """Start a server, let the clients go, and print what they saw; whether all was as it is to be."""
    server = subprocess.Popen(command)
    _wait(soak.port, server)
    began = time.monotonic()
    until = began + options.seconds
    clients = [threading.Thread(target=soak.client, args=(each, until)) for each in range(options.clients)]
    for client in clients:
        client.start()
    time.sleep(options.seconds * 0.2)
    before = resident(server.pid)
    for client in clients:
        client.join()
    seconds = time.monotonic() - began
    after = resident(server.pid)
    server.terminate()
    ended = _ends(server)
    times = sorted(soak.seconds) or [0.0]
    rate = soak.counts["tokens"] / seconds
    waits = f"p50 {times[len(times) // 2]:.2f} s, p99 {times[len(times) * 99 // 100]:.2f} s"
    print(f"{name}: {dict(soak.counts)}; {waits}", flush=True)
    print(f"{rate:.1f} tokens/s; {before / 1e6:.0f} MB behind a fifth of the time, {after / 1e6:.0f} MB at the end")
    if soak.alone is not None:
        print("\n".join(soak.wrong[:5]) or "every answer is that of a lone run")
    return not (soak.wrong or after - before > MOST_GROWTH or not ended or soak.counts["wrong status"])


def lone_answers(file: str, context: int) -> dict[Key, str]:
    """What the model answers alone, by prompt, length, temperature and seed."""
    model = nnc.language.load(file, context=context)
    return {
        (prompt, length, heat, seed): model.generate(prompt, length, temperature=heat or None, seed=seed)
        for prompt in PROMPTS for length in LENGTHS for heat in HEATS for seed in SEEDS
    }  # fmt: skip


def main() -> int:
    """Our server, and the peer's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", help="an interpreter that has xllamacpp, whose server is asked the same")
    options = parser.parse_args()
    soak = Soak(free_port(), lone_answers(options.file, options.context), options.seed)
    command = [sys.executable, "-m", "nnc", "serve", options.file, "--port", str(soak.port)]
    command += ["--slots", str(options.slots), "--context", str(options.context)]
    command += ["--threads", str(options.threads)]
    held = soaked("nnc", command, soak, options)
    if options.peer:
        # Its answers are not compared: they follow what is computed beside them.
        other = Soak(free_port(), None, options.seed)
        words = (options.file, options.threads, options.context, options.slots, other.port)
        soaked("llama.cpp", [options.peer, "-c", PEER, *map(str, words)], other, options)
    return int(not held)


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        # It tells nobody that it listens: it is asked again.
        time.sleep(0.2)
    raise SystemExit("the server did not start")


def _ends(server: subprocess.Popen[bytes]) -> bool:
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
