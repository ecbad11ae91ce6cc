"""What was measured of this machine, kept beside the object cache: once, or again by `nnc doctor --measure`.

Blocks and costs follow it, and nothing that would change bits (docs/design/0026). Where nothing is kept, they follow
what is shipped of the processor's family (`machines.json`); one that was not tried is measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path

from nnc.classes import dataclass
from nnc.codegen.ir.target import USUAL_CLOCK, USUAL_MEETING, Machine, TargetDescription
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running.llvm_library import facts, version
from nnc.core.running.processor import processor_name
from nnc.core.settings import usable_processors

PROCESSORS = Path("/sys/devices/system/cpu")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SHIPPED = Path(__file__).with_name("machines.json")
# A cache is as large as the system tells if arrays of half its size are read so much faster than those of twice.
FASTER = 1.05
# What is measured beside other work is not believed beyond these.
CLOCKS, MULTIPLY_ADDS, BYTES = (0.5, 8.0), (0.25, 4.0), (0.005, 0.5)
# Nor does a cache have lines of other sizes, whatever a virtual machine tells of it.
LINES = (16, 32, 64, 128, 256)
# A second-level cache that is smaller is none.
LEAST_LEVEL_TWO = 32 << 10
# Measured again by the next process, so often at most, where it had no processor for such a share of the time.
DOUBT, MOST_TIMES = 0.1, 3
# Measured again on the same machine, rates differ by a few hundredths: by no more they are the same.
ALIKE = 0.125
# Nor is it believed that workers meet in less than usual, as one that sleeps has to be woken.
MEETINGS = (USUAL_MEETING, 20_000.0)
FORM = 4  # of the profile: another one is measured anew


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """A cache for data as the system tells of it, and bytes per nanosecond that one worker reads, as measured.

    `loads` of an array of half its size, `beyond` of one of twice its size; 0 where that was not measured.
    """

    level: int
    nbytes: int
    ways: int
    line: int
    loads: float = 0.0
    beyond: float = 0.0

    @property
    def is_seen(self) -> bool:
        """True when what is measured agrees with the system."""
        return self.loads > FASTER * self.beyond

    def joined(self, earlier: CacheLevel) -> CacheLevel:
        """With the higher rates of both."""
        return replace(self, loads=_higher(self.loads, earlier.loads), beyond=_higher(self.beyond, earlier.beyond))


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """Of one worker: operations, bytes and nanoseconds, measured.

    `multiply_adds` is the most floating-point operations per nanosecond in f32, `peaks` those by type and bits of a
    register, `memory_loads` and `memory_stores` are bytes per nanosecond of arrays that no cache holds, `page_touches`
    nanoseconds for a line of each of so many pages in turn, `huge_touches` where pages may be huge, as the system's
    word on `huge_pages` allows, `meeting` nanoseconds for two workers to wait for each other, `handing` the same where
    they read what the other wrote, `waking` for one that slept to begin. `in_place` tells whether products that read
    their operands in place were faster than packed ones. `absent` is the share of its time in which the measuring had
    no processor, as others used it, and `times` how often it was done.
    """

    processor: str
    clock: float
    multiply_adds: float
    peaks: tuple[tuple[str, int, float], ...]
    caches: tuple[CacheLevel, ...]
    memory_loads: float
    memory_stores: float
    page_touches: tuple[tuple[int, float], ...]
    huge_touches: tuple[tuple[int, float], ...]
    huge_pages: str
    meeting: float
    handing: float
    waking: float
    in_place: bool
    absent: float = 0.0
    times: int = 1

    @property
    def is_doubtful(self) -> bool:
        """True when it was disturbed, and may be better the next time."""
        return self.absent > DOUBT and self.times < MOST_TIMES

    def joined(self, earlier: MachineProfile) -> MachineProfile:
        """The faster of both in each: what else runs only makes a machine look slower.

        What is about as fast stays as it was: kernels and programs that were kept are found by these numbers.
        """
        steady = min(self, earlier, key=lambda profile: profile.absent)
        before = {level.level: level for level in earlier.caches}
        return replace(
            self,
            clock=_higher(self.clock, earlier.clock),
            multiply_adds=_higher(self.multiply_adds, earlier.multiply_adds),
            caches=tuple(level.joined(before.get(level.level, level)) for level in self.caches),
            memory_loads=_higher(self.memory_loads, earlier.memory_loads),
            memory_stores=_higher(self.memory_stores, earlier.memory_stores),
            meeting=_sooner(self.meeting, earlier.meeting),
            handing=_sooner(self.handing, earlier.handing),
            waking=_sooner(self.waking, earlier.waking),
            in_place=steady.in_place,
            absent=steady.absent,
            times=earlier.times + 1,
        )

    def text(self) -> str:
        """As JSON."""
        return json.dumps({"form": FORM, **asdict(self)})

    def followed(self, target: TargetDescription) -> TargetDescription:
        """The target whose blocks and costs are those of this machine; what was not seen is as it was."""
        known, levels = target.machine, {cache.level: cache for cache in self.caches}
        first, second, last = levels.get(1), levels.get(2), self.caches[-1] if self.caches else None
        per_cycle = self.multiply_adds / (2 * target.lanes(32) * max(self.clock, CLOCKS[0]))
        # Costs are of the usual clock.
        usual = self.clock / USUAL_CLOCK
        machine = replace(
            known,
            clock=_within(self.clock, CLOCKS),
            multiply_adds=_within(per_cycle, MULTIPLY_ADDS),
            near_byte=_within(usual / second.loads, BYTES) if second and second.loads else known.near_byte,
            far_byte=_within(usual / last.loads, BYTES) if second and last and last.loads else known.far_byte,
            meeting=_within(self.handing, MEETINGS) if self.handing else known.meeting,
        )
        if first and first.line in LINES and 0 < first.ways <= first.nbytes // first.line:
            machine = replace(machine, level_one_bytes=first.nbytes, level_one_ways=first.ways, line_bytes=first.line)
        if second and second.nbytes >= LEAST_LEVEL_TWO and second.is_seen:
            machine = replace(machine, level_two_bytes=second.nbytes)
        # The wrong plan doubles a product's time: of three measurings beside four busy processes one chose it.
        return replace(target, machine=machine, in_place=target.in_place if self.absent > DOUBT else self.in_place)


def profile_of(text: str) -> MachineProfile:
    """Of JSON; ValueError, KeyError, TypeError or AttributeError for what is none."""
    values = json.loads(text)
    if values.pop("form") != FORM:
        raise ValueError("another form")
    values["caches"] = tuple(CacheLevel(**level) for level in values["caches"])
    for name in ("page_touches", "huge_touches"):
        values[name] = tuple((int(pages), float(each)) for pages, each in values[name])
    values["peaks"] = tuple((str(name), int(bits), float(rate)) for name, bits, rate in values["peaks"])
    return MachineProfile(**{field.name: values[field.name] for field in fields(MachineProfile)})


def shipped(target: TargetDescription) -> TargetDescription | None:
    """The target with what was measured of this processor's family; None where it was not tried at these registers."""
    family = json.loads(SHIPPED.read_text(encoding="utf-8")).get(facts().processor)
    bits = str(target.vector_bits)
    if family is None or bits not in family["in_place"]:
        return None
    machine = Machine(**family["machine"], multiply_adds=family["multiply_adds"][bits])
    return replace(target, machine=machine, in_place=family["in_place"][bits])


def huge_pages() -> str:
    """When the system makes pages huge: always, madvise or never; nothing where it does not tell."""
    _, _, chosen = _told(HUGE_PAGES).partition("[")
    return chosen.partition("]")[0]


def _within(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])


def _higher(measured: float, earlier: float) -> float:
    """The higher rate; the earlier one where the new one is about the same."""
    return measured if measured > earlier * (1 + ALIKE) else earlier


def _sooner(measured: float, earlier: float) -> float:
    """The shorter time; 0 is none, and the earlier one stays where the new one is about the same."""
    return measured if measured and (not earlier or measured * (1 + ALIKE) < earlier) else earlier


def stored_profile(target: TargetDescription, folder: Path | None) -> MachineProfile | None:
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
    """Caches for data, the first level first; none where the system does not tell.

    Of processors unlike each other the smallest of each level, as any of them may run a worker.
    """
    by_level: dict[int, CacheLevel] = {}
    for processor in usable_processors():
        for cache in _caches_of(processor):
            by_level[cache.level] = min(by_level.get(cache.level, cache), cache, key=lambda level: level.nbytes)
    return tuple(by_level[level] for level in sorted(by_level))


def _caches_of(processor: int) -> Iterator[CacheLevel]:
    for place in sorted((PROCESSORS / f"cpu{processor}" / "cache").glob("index*")):
        facts = {name: _told(place / name) for name in ("level", "type", "size", "ways_of_associativity")}
        line = _told(place / "coherency_line_size")
        if facts["type"] in ("Data", "Unified") and facts["size"].rstrip("KMG").isdigit():
            scale = 1 << {"K": 10, "M": 20, "G": 30}.get(facts["size"][-1], 0)
            nbytes = int(facts["size"].rstrip("KMG")) * scale
            ways = int(facts["ways_of_associativity"] or 0)
            yield CacheLevel(int(facts["level"]), nbytes, ways, int(line or 64))


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
    return hashlib.sha256("\0".join((processor_name(), target.key, version())).encode()).hexdigest()
