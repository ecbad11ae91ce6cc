"""What is no plain file is refused at every door before a byte is taken, and a file that shrinks is noticed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.forks import COMMANDS, forking

import nnc
from nnc import nn, onnx
from nnc.core.precautions.reading import HeldFile, MappedFile, kind_of, opened, read_file
from nnc.core.values.serialize import load_tensors
from nnc.errors import DataError, FormatError
from nnc.nn.data import DataFrame, read_image, read_table
from nnc.nn.files.model_spec import load_model
from nnc.planning import read_csv

MODEL = nn.Model(nn.Dense(2), (3,))
DOORS: dict[str, Callable[[Path], object]] = {
    "a file": read_file,
    "mapped": MappedFile,
    "tensors": load_tensors,
    "mapped tensors": lambda path: load_tensors(path, mapped=True),
    "load": nnc.load,
    "load into a model": lambda path: nnc.load(path, MODEL),
    "checkpoint": lambda path: nn.load_checkpoint(path, MODEL),
    "position": nn.read_position,
    "model": load_model,
    "pretrained": lambda path: nn.load_pretrained(MODEL, path, "gpt2"),
    "onnx": onnx.load,
    "table": lambda path: read_table(path, "y"),
    "csv": lambda path: DataFrame.from_csv(path),
    "parquet": lambda path: DataFrame.from_parquet(path),
    "image": read_image,
    "plan": read_csv,
}


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of another kind")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("make", [lambda folder: Path("/dev/zero"), pipe], ids=["device", "pipe"])
def test_what_never_ends_is_refused(tmp_path: Path, door: str, make: Callable[[Path], Path]) -> None:
    """A pipe without a writer was waited for, and a device read until there was no memory."""
    with pytest.raises((FormatError, DataError), match="device|pipe"):
        DOORS[door](make(tmp_path))
    if door == "load":
        (tmp_path / "beside").mkdir()
        os.symlink(make(tmp_path / "beside"), tmp_path / "named.npz")
        with pytest.raises(FormatError, match=r"device|pipe.*an \.npz file"):
            nnc.load(tmp_path / "named.npz")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs files of Linux")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("place", ["/proc/kmsg", "/proc/self/status", "/proc/self/pagemap"])
def test_files_of_the_system_without_a_size_are_refused(door: str, place: str) -> None:
    """`/proc/kmsg` was waited for: it is a plain file that has no end."""
    with pytest.raises((FormatError, DataError), match="without a size|permi|columns none"):
        DOORS[door](Path(place))


SHORTENED = """
import os, sys, threading, time, nnc
from pathlib import Path
from nnc import nn
from nnc.errors import NncError
path, kind = Path(sys.argv[1]), sys.argv[2]
model = nn.Model(nn.Dense(400), (400,), loss=nn.MeanSquaredError(), optimizer=nn.Adam(0.1))
layer = nn.Dense(400)
layer(nnc.ones((1, 400)))
batches = nn.data.Batches(nn.data.Examples("drawn", nnc.ones((4, 400)).numpy(), nnc.ones((4, 400)).numpy()), 2)
writes = {"checkpoint": lambda: nn.save_checkpoint(path, model, nn.position_of(model, batches)),
          "model": lambda: nn.save_model(path, model)}
writes.get(kind, lambda: nnc.save(path, model))()
content, tensors = path.read_bytes(), model.state_dict()
loads = {"load": lambda: nnc.load(path, model), "weights": lambda: model.load_weights(path),
         "layer": lambda: layer.load(path), "checkpoint": lambda: nn.load_checkpoint(path, model),
         "position": lambda: nn.read_position(path) if kind == "checkpoint" else nnc.load(path),
         "model": lambda: nn.load_model(path)}
done = threading.Event()

def shorten():
    # Longer than a tick of a file system's clock: a write within the tick of the one before has its time.
    while not done.wait(0.012):
        with open(path, "r+b") as file:
            file.truncate(len(content) // 2 // 4096 * 4096)
            time.sleep(0.012)
            file.write(content)

thread = threading.Thread(target=shorten)
thread.start()
refused = loaded = 0
while min(refused, loaded) < 3 and refused + loaded < 3000:
    try:
        loads[kind]()
        loaded += 1
    except NncError:
        refused += 1
done.set()
thread.join()
assert all((model.state_dict()[name] == value).all() for name, value in tensors.items())
print(refused > 0)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs files that become shorter while they are read")
@pytest.mark.parametrize("kind", ["load", "weights", "layer", "checkpoint", "model"])
def test_loading_a_file_that_somebody_shortens_is_an_error_at_most(tmp_path: Path, kind: str) -> None:
    """Files were mapped while they were copied: one that was shortened then ended the process (SIGBUS)."""
    code, out, told = forking(COMMANDS).run(SHORTENED, str(tmp_path / "f"), kind)
    assert (out, code) == ("True\n", 0), told[-2000:]


def test_what_is_written_meanwhile_is_told_and_a_file_that_takes_the_name_is_not(tmp_path: Path) -> None:
    path, other = tmp_path / "f", tmp_path / "g"
    for place in (path, other):
        place.write_bytes(bytes(64))
    past = (10**18, 10**18)
    os.utime(path, ns=past)
    held = HeldFile(path)
    with opened(path) as (handle, _):
        os.replace(other, path)
        assert os.read(handle, 100) == bytes(64)
    held.read(memoryview(bytearray(64)), 0)
    os.utime(path, ns=past)
    held = HeldFile(path)
    with pytest.raises(FormatError, match="64 bytes: it was written while it was read.*read it again"), opened(path):
        path.write_bytes(b"1" * 64)
    with pytest.raises(FormatError, match="written while it was read"):
        held.read(memoryview(bytearray(64)), 0)
    with opened(path, writable=True) as (handle, _):
        os.write(handle, b"2")


@pytest.mark.parametrize("door", [name for name in DOORS if "load" not in name and name != "pretrained"])
def test_a_folder_is_no_file(tmp_path: Path, door: str) -> None:
    with pytest.raises((FormatError, DataError), match="is a directory"):
        DOORS[door](tmp_path)


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(200)))
    assert read_file(path) == bytes(range(200))
    with pytest.raises(FormatError, match="got 200 bytes; need a text of at most 100"):
        read_file(path, "a text", 100)
    monkeypatch.setattr("nnc.core.precautions.reading.PART", 64)
    monkeypatch.setattr("nnc.core.precautions.reading.opened", _shrinking)
    with pytest.raises(FormatError, match="64 bytes: it became shorter while it was read; need 200 bytes"):
        read_file(path)


class _Shrinking:
    """A file that loses its end while it is open."""

    def __init__(self, path: Path) -> None:
        self.opened = opened(path)
        self.path = path

    def __enter__(self) -> tuple[int, int]:
        found = self.opened.__enter__()
        os.truncate(self.path, 64)
        return found

    def __exit__(self, *told: Any) -> bool | None:
        return self.opened.__exit__(*told)


def _shrinking(path: Path, need: str) -> _Shrinking:
    return _Shrinking(path)


def test_first_bytes_name_a_file(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    for content, kind in ((b"PAR1" + bytes(9), "a Parquet file"), (b"id,x", ""), (b"", "")):
        path.write_bytes(content)
        assert kind_of(path) == kind
    path.write_bytes(b"PAR1\xff\xfe")
    with pytest.raises(FormatError, match="got a Parquet file; need a CSV file in UTF-8. Fix: .*from_parquet"):
        read_table(path, "y")


def test_handles_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "f"
    np.arange(8.0).tofile(path)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    for _ in range(20):
        kind_of(path)
        MappedFile(path).check()
        with pytest.raises(FormatError):
            load_tensors(path)
    threads = [threading.Thread(target=read_file, args=(path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 1
