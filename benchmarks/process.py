"""What the system says of this process, and what another one says."""

from __future__ import annotations

import ctypes
import json
import pkgutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from nnc.core.values.storage import trim_free_memory

HERE = Path("/proc/self")
# madvise: read all pages of a mapping in now.
POPULATE_READ = 22
# Seconds between processes that are compared: threads of the one that ended may spin, and processors of a cloud machine
# slow down.
PAUSE = 2


def last_row(command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Any:  # noqa: ANN401  # whatever it prints
    """What a command prints last, as JSON; what it complains of goes where our own complaints go."""
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    return json.loads(ran.stdout.splitlines()[-1])


def high_water() -> int:
    """The most bytes that this process has had in memory (VmHWM)."""
    return _status("VmHWM")


def anonymous() -> int:
    """The bytes in memory that no file is behind (RssAnon)."""
    return _status("RssAnon")


def settled() -> int:
    """The bytes in memory (VmRSS) after which a rise of `high_water` is memory that no file is behind.

    Free memory is given back, all pages of loaded files are read in, and the high-water mark begins anew.
    """
    trim_free_memory()
    library = ctypes.CDLL(None)
    for line in (HERE / "maps").read_text().splitlines():
        words = line.split()
        if len(words) > 5 and words[5].startswith("/") and "r" in words[1]:
            begin, end = (int(word, 16) for word in words[0].split("-"))
            library.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), POPULATE_READ)
    (HERE / "clear_refs").write_text("5")
    return _status("VmRSS")


def import_whole(*packages: str) -> None:
    """All modules of packages."""
    for name in packages:
        for module in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
            import_module(module.name)


def _status(name: str) -> int:
    lines = (HERE / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
