"""What was measured of this machine, kept beside the object cache: once, or again by `nnc doctor --measure`.

Plans follow it only where their bits stay the same: `in_place` (docs/design/0009). Without a cache they follow what is
known of the processor's family (`TargetDescription`).
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from nnc.backends.llvm.ir.library import VERSION
from nnc.backends.llvm.ir.target import TargetDescription
from nnc.core.disk_cache import DiskCache

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
FORM = 1  # of the profile: another one is measured anew


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """A cache for data as the system tells of it, and bytes per nanosecond that one worker reads of it, as measured."""

    level: int
    nbytes: int
    ways: int
    line: int
    loads: float = 0.0


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """Of one worker: operations, bytes and nanoseconds, measured.

    `multiply_adds` is the most floating-point operations per nanosecond in f32, `memory_loads` and `memory_stores` are
    bytes per nanosecond of arrays that no cache holds, `page_touches` nanoseconds for a line of each of so many pages
    in turn, `meeting` nanoseconds for two workers to wait for each other, `waking` for one that slept to begin.
    `in_place` tells whether products that read their operands in place were faster than packed ones.
    """

    processor: str
    clock: float
    multiply_adds: float
    caches: tuple[CacheLevel, ...]
    memory_loads: float
    memory_stores: float
    page_touches: tuple[tuple[int, float], ...]
    meeting: float
    waking: float
    in_place: bool

    def text(self) -> str:
        """As JSON."""
        return json.dumps({"form": FORM, **asdict(self)})


def profile_of(text: str) -> MachineProfile:
    """Of JSON; ValueError, KeyError, TypeError or AttributeError for what is none."""
    found = json.loads(text)
    if found.pop("form") != FORM:
        raise ValueError("another form")
    found["caches"] = tuple(CacheLevel(**one) for one in found["caches"])
    found["page_touches"] = tuple((int(pages), float(each)) for pages, each in found["page_touches"])
    return MachineProfile(**{field.name: found[field.name] for field in fields(MachineProfile)})


def kept_profile(target: TargetDescription, folder: Path | None) -> MachineProfile | None:
    """The profile of this processor at this level, if it was measured."""
    content = _cache(folder).load(_key(target))
    try:
        return None if content is None else profile_of(content.decode())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def keep_profile(target: TargetDescription, folder: Path | None, profile: MachineProfile) -> None:
    """For the next processes."""
    _cache(folder).store(_key(target), profile.text().encode())


def caches() -> tuple[CacheLevel, ...]:
    """Caches for data, the first level first; none where the system does not tell."""
    found = []
    for place in sorted(CACHES.glob("index*")):
        facts = {name: _told(place / name) for name in ("level", "type", "size", "ways_of_associativity")}
        line = _told(place / "coherency_line_size")
        if facts["type"] in ("Data", "Unified") and facts["size"].rstrip("KMG").isdigit():
            scale = 1 << {"K": 10, "M": 20, "G": 30}.get(facts["size"][-1], 0)
            nbytes = int(facts["size"].rstrip("KMG")) * scale
            ways = int(facts["ways_of_associativity"] or 0)
            found.append(CacheLevel(int(facts["level"]), nbytes, ways, int(line or 64)))
    return tuple(found)


def _told(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cache(folder: Path | None) -> DiskCache:
    # What is damaged is measured again, in half a second: no reason to warn.
    return DiskCache(folder, "profile", ".json", warned=True)


def _key(target: TargetDescription) -> str:
    """The host's processor, and the level that code is made for."""
    return hashlib.sha256("\0".join((host_processor(), target.key, VERSION)).encode()).hexdigest()


def host_processor() -> str:
    """What the system calls the processor."""
    for line in _told(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
