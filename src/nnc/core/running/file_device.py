"""Files as memory: a folder that programs may leave values in is a device, `file:0`, `file:1`, …

A value goes there and comes back by `to_device`, as it does between the host and another device. What that costs is
measured once for each folder and process, and counted as work, so that it can be weighed against computing again.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import perf_counter

from nnc.arguments import shown
from nnc.core.precautions.forking import fork_safe_lock
from nnc.core.precautions.replacement import reason_of
from nnc.core.values.device import FILE, Device
from nnc.errors import UsageError

# What is written to a folder and read back to know its rate, and how often: more than processors keep by themselves, as
# 8 MB come to twice the rate of the 138 that ResNet-20 leaves there (128 images, a limit of a quarter).
MEASURED_BYTES, MEASURED = 32 << 20, 2
# What a training step computes in a second, with all that lies between its products: 51 to 58 of ResNet-20 with 128
# images on two cores (`python benchmarks/offload.py`).
OPERATIONS_PER_SECOND = 50e9

Folder = str | os.PathLike[str]

_FOLDERS: list[Path] = []
_RATES: dict[Path, float] = {}
_LOCK = fork_safe_lock()


def file_device(folder: Folder) -> Device:
    """The device of a folder: the same for the same folder.

    UsageError for what is no folder in which files may be made.
    """
    path = checked_folder(folder)
    with _LOCK:
        if path not in _FOLDERS:
            _FOLDERS.append(path)
        return Device(FILE, _FOLDERS.index(path))


def checked_folder(folder: Folder, option: str = "offload_folder") -> Path:
    """The folder, whole; UsageError for what is none, or where no file may be made."""
    need = "a folder in which files may be made"
    if not isinstance(folder, str | os.PathLike) or not str(folder):
        raise UsageError(option, got=shown(folder), need=need)
    if not hasattr(os, "pwrite"):
        raise UsageError(option, got=f"a folder on {os.name}", need="a system that has pwrite")
    try:
        path = Path(folder).resolve()
        with tempfile.TemporaryFile(dir=path):
            return path
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise UsageError(option, got=f"{shown(str(folder))}: {reason}", need=need) from None


def folder_count() -> int:
    """How many folders are devices."""
    return len(_FOLDERS)


def folder_of(device: Device) -> Path:
    """The folder of a device."""
    return _FOLDERS[device.index]


def seconds_per_byte(device: Device) -> float:
    """Of a value that goes to a file and comes back, for each byte: the least of a few times, measured once."""
    folder = folder_of(device)
    if folder not in _RATES:
        _RATES[folder] = min(_seconds(folder) for _ in range(MEASURED)) / MEASURED_BYTES
    return _RATES[folder]


def operations_per_byte(device: Device) -> int:
    """What could be computed while a byte goes one way, as a power of two: plans are to be the same tomorrow."""
    half = seconds_per_byte(device) * OPERATIONS_PER_SECOND / 2
    return 1 << max(round(half).bit_length() - 1, 0)


def _seconds(folder: Path) -> float:
    content = bytearray(MEASURED_BYTES)
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            os.pwrite(file.fileno(), content, 0)  # makes room, as an arena has it
            begin = perf_counter()
            os.pwrite(file.fileno(), content, 0)
            os.preadv(file.fileno(), [content], 0)
            return perf_counter() - begin
    except OSError as error:
        raise UsageError("offload_folder", got=f"{folder}: {error}", need="room for 32 MB") from None
