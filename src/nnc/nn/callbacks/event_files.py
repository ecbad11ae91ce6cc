"""TensorBoard's event files: TFRecords of protobuf messages, written without either library.

record = u64 length | masked crc32c(length) | bytes | masked crc32c(bytes), all little-endian
masked(c) = ((c >> 15) | (c << 17)) + 0xa282ead8 mod 2^32
event = {1: f64 wall time, 2: step, 3: version | 5: summary {1: value {1: tag, 2: f32 figure} …}}

Sources: TensorFlow's core/util/event.proto, core/framework/summary.proto and lib/io/record_writer.cc.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from nnc.arguments import checked
from nnc.core.values.leb128 import written_number
from nnc.nn.callbacks.callbacks import append, check_writable
from nnc.nn.training.training import Callback, Progress, Run

__all__ = ["TensorBoardLog"]

CASTAGNOLI = 0x82F63B78
MASK = 0xA282EAD8
# Kinds of protobuf fields.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def _row(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (CASTAGNOLI if value & 1 else 0)
    return value


CRC_TABLE = tuple(map(_row, range(256)))


def crc32c(data: bytes) -> int:
    """The cyclic redundancy check with Castagnoli's polynomial (RFC 3720, appendix B.4).

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """A TFRecord of these bytes."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF)


def event(moment: float, step: int, figures: Mapping[str, float] | None) -> bytes:
    """An event with these figures; without any the one that a file begins with."""
    head = _field(1, FIXED64, struct.pack("<d", moment)) + _field(2, VARINT, written_number(step))
    if figures is None:
        return head + _sized(3, b"brain.Event:2")
    values = (_sized(1, name.encode()) + _field(2, FIXED32, single_precision(value)) for name, value in figures.items())
    return head + _sized(5, b"".join(_sized(1, value) for value in values))


def single_precision(value: float) -> bytes:
    """The four bytes of an f32; a number beyond its range is infinite.

    >>> single_precision(-1e300) == single_precision(-float("inf"))
    True
    """
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _field(number: int, kind: int, data: bytes) -> bytes:
    return bytes([number << 3 | kind]) + data


def _sized(number: int, data: bytes) -> bytes:
    return _field(number, BYTES, written_number(len(data)) + data)


def begun_events(folder: Path) -> Path:
    """A file of events in the folder, with the one that it begins with; FormatError where it cannot be written."""
    path = folder / f"events.out.tfevents.{time.time_ns()}"
    check_writable(path)
    append_event(path, 0, None)
    return path


def append_event(path: Path, step: int, figures: Mapping[str, float] | None) -> None:
    """An event of now behind those of the file."""
    append(path, record(event(time.time(), step, figures)))


@checked
class TensorBoardLog(Callback):
    """The figures of each epoch, in a file of its own for each `fit`: `tensorboard --logdir FOLDER`.

    With `updates`, loss and rate of each update too, as `update/loss` and `update/rate`.
    """

    def __init__(self, folder: Path | str, updates: bool = False) -> None:
        self._folder, self._updates = Path(folder), updates
        self._path = self._folder

    def on_train_begin(self, run: Run) -> None:
        self._path = begun_events(self._folder)

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        if self._updates:
            rate = run.model.optimizer.scalars(run.model.updates - run.model.since)["rate"]
            append_event(self._path, run.model.updates, {"update/loss": progress.loss, "update/rate": rate})

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        figures = {name: value for name, value in row.items() if name != "epoch"}
        append_event(self._path, round(row["epoch"]), figures)
