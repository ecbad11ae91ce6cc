"""Event files are what TensorBoard reads: bytes of a known file, and records that check out."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from nnc import nn
from nnc.nn.callbacks.event_files import crc32c, event, record


def unmasked(data: bytes) -> int:
    turned = (struct.unpack("<I", data)[0] - 0xA282EAD8) & 0xFFFFFFFF
    return (turned >> 17 | turned << 15) & 0xFFFFFFFF


def records(data: bytes) -> list[bytes]:
    """The bytes of each record, whose checks hold."""
    found = []
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        body = data[12 : 12 + length]
        assert unmasked(data[8:12]) == crc32c(data[:8])
        assert unmasked(data[12 + length : 16 + length]) == crc32c(body)
        found.append(body)
        data = data[16 + length :]
    return found


def test_an_epoch_is_an_event_and_a_fit_a_file(tmp_path: Path) -> None:
    x = np.ones((8, 2), np.float32)
    model = nn.Model(nn.Dense(1), (2,), loss=nn.MeanSquaredError(), backend="reference")
    log = nn.TensorBoardLog(tmp_path / "run", updates=True)
    model.fit(x, x[:, :1], epochs=2, batch_size=4, callbacks=[log])
    model.fit(x, x[:, :1], callbacks=[log])
    first, second = sorted((tmp_path / "run").iterdir())
    assert "tfevents" in first.name
    bodies = records(first.read_bytes())
    assert len(bodies) == 1 + 2 * 2 + 2
    assert bodies[0].endswith(b"brain.Event:2")
    assert [b"update/rate" in one for one in bodies] == [False, True, True, False, True, True, False]
    assert len(records(second.read_bytes())) == 3


def test_an_event_has_the_bytes_of_the_format() -> None:
    found = event(1.5, 300, {"loss": 0.25})
    value = b"\x0a\x04loss\x15" + struct.pack("<f", 0.25)
    assert found == b"\x09" + struct.pack("<d", 1.5) + b"\x10\xac\x02" + b"\x2a\x0d\x0a\x0b" + value
    assert records(record(found)) == [found]


def test_a_figure_beyond_f32_is_infinite() -> None:
    """A loss of 1e39 ended a training in f64 with OverflowError."""
    assert event(0.0, 1, {"loss": -1e39}).endswith(struct.pack("<f", -np.inf))
