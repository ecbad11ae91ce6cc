"""nnc verify: an ONNX model computed in several ways, beside the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnc.cli.files.onnx_model import Array, ModelFile, Sizes, load, peer_session, random_feeds
from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, complain, output, table, write_json
from nnc.core.settings import SETTINGS
from nnc.errors import BackendError

Most = Annotated[float, typer.Option(min=0.0, help="Exit code 1 beyond this relative difference.")]
Outputs = Mapping[str, "Array | list[Array] | None"]


def verify(model: ModelFile, size: Sizes = None, most: Most = 1e-3, json: AsJson = False) -> int:
    """Compare LLVM, LLVM without passes, LLVM in poisoned memory and onnxruntime with the reference, on random inputs.

    nnc verify model.onnx --size batch=2
    """
    feeds = random_feeds(load(model, size, ""))
    ways, refused = _ways(model, size, feeds)
    expected = _ours(model, size, feeds, "reference")
    differences: dict[str, float] = {}
    for name, way in ways.items():
        differences[name] = max((_difference(expected[entry], value) for entry, value in way().items()), default=0.0)
    worst = max(differences.values())
    if json:
        facts: dict[str, Json] = dict(differences)
        write_json({"relative_differences": facts, "most": most, "equal": worst <= most, "refused": refused})
    else:
        rows = table(model.name, "way", "relative difference", numbers=("relative difference",))
        for name, value in differences.items():
            add_row(rows, name, f"{value:.2e}")
        output().print(rows)
        if refused:
            complain(refused)
    if not worst <= most:
        complain(f"verify: got a relative difference of {worst:.2e}; need at most {most:g}. Fix: report the model")
        return 1
    return 0


def _ours(model: Path, size: Sizes, feeds: Mapping[str, Array], backend: str, *, passes: bool = True) -> Outputs:
    """What the file gives on one of our backends."""
    loaded = load(model, size, backend)
    if not passes:
        loaded.passes = ()
    return loaded.run(feeds)


def _ways(model: Path, size: Sizes, feeds: Mapping[str, Array]) -> tuple[dict[str, Callable[[], Outputs]], str]:
    """The ways to compute the outputs, and why onnxruntime refuses the file; empty where it does not."""

    def poisoned() -> Outputs:
        with _debug():
            return _ours(model, size, feeds, "llvm")

    ways: dict[str, Callable[[], Outputs]] = {
        "llvm": lambda: _ours(model, size, feeds, "llvm"),
        "llvm without passes": lambda: _ours(model, size, feeds, "llvm", passes=False),
        "llvm in poisoned memory": poisoned,
    }
    if find_spec("onnxruntime") is None:
        return ways, ""
    try:
        session = peer_session(model, 0)
    except BackendError as error:
        return ways, str(error)
    names = load(model, size, "").outputs
    ways["onnxruntime"] = lambda: dict(zip(names, session.run(names, feeds), strict=True))
    return ways, ""


def _difference(want: object, got: object) -> float:
    """max |got - want| / max |want|; infinite for another shape, and where one is no number and the other is."""
    if isinstance(want, list) and isinstance(got, list):
        return max(map(_difference, want, got), default=0.0) if len(want) == len(got) else np.inf
    if want is None or got is None:
        return 0.0 if want is got else np.inf
    a, b = np.asarray(want), np.asarray(got)
    if a.shape != b.shape or a.dtype.kind in "OSU":
        return 0.0 if np.array_equal(a, b) else np.inf
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return np.inf
    largest = np.abs(a[np.isfinite(a)]).max(initial=1e-9)
    return float(np.abs(a - b)[~same].max(initial=0.0) / largest)


@contextmanager
def _debug() -> Iterator[None]:
    """Memory that is not-a-number wherever nobody wrote, for as long as it is open."""
    before, SETTINGS.debug = SETTINGS.debug, True
    try:
        yield
    finally:
        SETTINGS.debug = before
