"""The page on architecture tells what is: the functions that calls pass, in order, and the picture of the imports."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.settings import SETTINGS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WAYS = {
    title: re.findall(r"^- `(nnc[\w.]*:[\w.]+)`", section, re.MULTILINE)
    for title, section in re.findall(r"^### (.*?)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
}
X = np.ones((8, 3), np.float32)


def passed(call: Callable[[], object]) -> list[str]:
    """The functions of the package that a call enters, `module:qualified name`, in order."""
    entered = list[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("nnc"):
            entered.append(f"{module}:{frame.f_code.co_qualname}")

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(previous)
    return entered


def missing(way: list[str], entered: Iterator[str]) -> list[str]:
    """What of a way does not come in its order."""
    return [step for step in way if step not in entered]


def addition(_: Path) -> Callable[[], object]:
    x, y = nnc.variable(X), nnc.variable(X)
    return lambda: x + y


def compiled(_: Path) -> Callable[[], object]:
    x, y = nnc.variable(X), nnc.variable(X)
    function = nnc.compile(lambda x, y: (x * y + x).sum())
    return lambda: function(x, y)


def network() -> nn.Model:
    return nn.Model(nn.Sequential(nn.Dense(4), nn.ReLU(), nn.Dense(2)), (3,))


def training(_: Path) -> Callable[[], object]:
    model, labels = network(), np.zeros(8, np.int64)
    return lambda: model.train_on_batch(X, labels)


def onnx_file(folder: Path) -> Callable[[], object]:
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    from nnc import onnx  # noqa: PLC0415  # an extra

    onnx.save(network(), folder / "network.onnx")
    model = onnx.load(folder / "network.onnx")
    return lambda: model.run({"x": X})


CALLS = {
    "An eager addition, `x + y`": addition,
    "A compiled function, `nnc.compile(f)(x, y)`": compiled,
    "A training batch, `model.train_on_batch(x, y)`": training,
    'An ONNX file, `nnc.onnx.load(path).run({"x": x})`': onnx_file,
}


def test_every_way_of_the_page_has_a_call() -> None:
    assert set(WAYS) == set(CALLS)


@pytest.mark.parametrize("title", CALLS)
def test_a_call_goes_the_way_of_the_page(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", None)  # its program is planned here
    call = CALLS[title](tmp_path)
    for _ in range(2):
        call()
    assert WAYS[title]
    assert missing(WAYS[title], iter(passed(call))) == []


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "perhaps from the disk"])
def test_a_warm_batch_takes_few_calls(planned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """118 in 30 modules, and 416 for two batches of `fit`: a check that moves inward again shows here."""
    if planned:
        monkeypatch.setattr(SETTINGS, "cache_folder", None)
    model, labels = network(), np.zeros(16, np.int64)
    calls = {
        130: lambda: model.train_on_batch(X, labels[:8]),
        450: lambda: model.fit(np.ones((16, 3), np.float32), labels, batch_size=8, epochs=1),
    }
    for most, call in calls.items():
        for _ in range(3):
            call()
        assert len(passed(call)) <= most


def test_the_picture_has_the_imports_that_are_there() -> None:
    place = ROOT / "docs" / "site" / "architecture.py"
    specification = importlib.util.spec_from_file_location("site_architecture", place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    drawn = set(re.findall(r'id="([\w-]+)"', module.PICTURE.read_text(encoding="utf-8")))
    pairs = {f"{above}-{below}" for above, below in module.imports()}
    assert drawn == pairs | set(module.layers()), "python docs/site/architecture.py draws it anew"
