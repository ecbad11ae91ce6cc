"""nnc bench: how fast an ONNX model runs, beside onnxruntime where that is asked for."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated

import typer

from nnc.cli.files.onnx_model import ModelFile, Sizes, load, peer_session, random_feeds
from nnc.cli.options import AsJson, BackendName, DeviceName, Threads, placed
from nnc.cli.terminal import Json, add_row, output, table, write_json
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError

Against = Annotated[str, typer.Option(metavar="onnxruntime", help="A runtime to measure in turns with ours.")]
Runs = Annotated[int, typer.Option(min=1, max=10_000, help="Runs that are measured; the median counts.")]


def bench(
    model: ModelFile,
    size: Sizes = None,
    against: Against = "",
    runs: Runs = 10,
    threads: Threads = None,
    backend: BackendName = "",
    device: DeviceName = "",
    json: AsJson = False,
) -> int:
    """Measure an ONNX model on random inputs: the first answer, the median of further runs, and the arena.

    nnc bench model.onnx --size batch=1 --against onnxruntime
    """
    if against not in ("", "onnxruntime") or (against and find_spec(against) is None):
        raise UsageError("--against", got=repr(against), need="onnxruntime, installed", fix="pip install onnxruntime")
    if threads is not None:
        SETTINGS.threads = threads
    began = time.perf_counter()
    with placed(device):
        loaded = load(model, size, backend)
    feeds = random_feeds(loaded)
    loaded.run(feeds)
    facts: dict[str, Json] = {"first_answer_seconds": time.perf_counter() - began}
    calls: list[tuple[str, Callable[[], object]]] = [("seconds", lambda: loaded.run(feeds))]
    if against:
        session = peer_session(model, SETTINGS.worker_count())
        calls.append((f"{against}_seconds", lambda: session.run(None, dict(feeds))))
    times: dict[str, list[float]] = {name: [] for name, _ in calls}
    for _ in range(runs + 1):
        for name, call in calls:
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    # The first turn warms both up.
    facts |= {name: statistics.median(seconds[1:]) for name, seconds in times.items()}
    facts |= {"arena_bytes": loaded.memory().arena, "threads": SETTINGS.worker_count()}
    if json:
        write_json(facts)
        return 0
    rows = table(model.name, "what", "value", numbers=("value",))
    for name, value in facts.items():
        add_row(rows, name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else f"{value:,}")
    output().print(rows)
    return 0
