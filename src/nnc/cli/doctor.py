"""nnc doctor: what this machine has and what nnc can use of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import llvmlite.binding as llvm
from rich.table import Table

from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, output, size, table, write_json
from nnc.cli.versions import versions
from nnc.core.dispatch import DISPATCHER
from nnc.core.settings import SETTINGS, usable_processors

CPU_FILE = Path("/proc/cpuinfo")
CONTROL_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that doctor reports; an empty text or null is something that the system does not tell."""

    cpu: str
    features: list[str]
    cores: int
    threads: int
    memory_bytes: int | None
    memory_limit_bytes: int | None
    platform: str
    versions: dict[str, str]
    backends: dict[str, str]
    cache_folder: str | None
    cache_writable: bool
    kept_programs: int
    kept_bytes: int
    kept_kernel_bytes: int


def doctor(json: AsJson = False) -> int:
    """Tell the processor, its features, the backends (and why one is absent), versions and the cache folder.

    nnc doctor --json
    """
    found = examine()
    if json:
        write_json(_facts(found))
        return 0
    console = output()
    console.print(_machine(found))
    backends = table("Backends, in order of preference", "name", "state")
    for name, absence in found.backends.items():
        add_row(backends, name, f"absent: {absence}" if absence else "present")
    console.print(backends)
    console.print(_pairs("Versions", found.versions))
    return 0


def examine() -> Findings:
    """Look at the machine and the environment."""
    cache = SETTINGS.cache_folder
    return Findings(
        cpu=_cpu_name(),
        features=sorted(name for name, present in llvm.get_host_cpu_features().items() if present),
        cores=len(usable_processors()),
        threads=SETTINGS.worker_count(),
        memory_bytes=_memory(),
        memory_limit_bytes=_memory_limit(),
        platform=platform.platform(),
        versions=versions(),
        backends={backend.name: backend.absence() for backend in DISPATCHER.backends.values()},
        cache_folder=None if cache is None else str(cache),
        cache_writable=cache is not None and _can_write(cache),
        kept_programs=SETTINGS.kept_programs,
        kept_bytes=SETTINGS.kept_bytes,
        kept_kernel_bytes=SETTINGS.kept_kernel_bytes,
    )


def _facts(found: Findings) -> dict[str, Json]:
    return asdict(found) | {
        "backends": [
            {"name": name, "present": not absence, "reason": absence} for name, absence in found.backends.items()
        ]
    }


def _machine(found: Findings) -> Table:
    limit = "" if found.memory_limit_bytes is None else f", of which {size(found.memory_limit_bytes)} may be used"
    cache = f"{found.cache_folder} ({'writable' if found.cache_writable else 'not writable'})"
    return _pairs(
        "Machine",
        {
            "processor": found.cpu or "unknown",
            "features": " ".join(found.features),
            "cores usable": f"{found.cores}, used by {found.threads} threads",
            "memory": "unknown" if found.memory_bytes is None else size(found.memory_bytes) + limit,
            "platform": found.platform,
            "cache": "none (NNC_CACHE_DIR is empty, or there is no home)" if found.cache_folder is None else cache,
            "programs kept": f"{found.kept_programs}, or {size(found.kept_bytes)}, by each model and dynamic graph",
            "kernels kept": f"{size(found.kept_kernel_bytes)} of eager code, and those of programs",
        },
    )


def _pairs(title: str, pairs: Mapping[str, str]) -> Table:
    result = table(title, "what", "value")
    for what, value in pairs.items():
        add_row(result, what, value)
    return result


def _cpu_name() -> str:
    if CPU_FILE.is_file():
        for line in CPU_FILE.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip().lower() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _memory_limit() -> int | None:
    """The limit of the control group, None where there is none."""
    try:
        text = CONTROL_GROUP_LIMIT.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _can_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is made itself when it is first needed."""
    nearest = next((place for place in (folder, *folder.parents) if place.exists()), None)
    return nearest is not None and nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
