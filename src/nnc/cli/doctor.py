"""nnc doctor: what this machine has and what nnc can use of it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from nnc.backends.llvm.measure import measure as measure_machine
from nnc.backends.llvm.run.compilations import Compilations, compilations
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.host import host_target, tiles_absence
from nnc.backends.llvm.run.profile import CacheLevel, MachineProfile, keep_profile, stored_profile
from nnc.classes import dataclass
from nnc.cli.device_rates import DeviceReport, device_reports
from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, output, size, table, write_json
from nnc.cli.versions import versions
from nnc.core.precautions.disk_cache import DiskCache, can_write
from nnc.core.precautions.machine_memory import group_limit, machine_memory
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.running.llvm_library import absence, facts
from nnc.core.running.processor import processor_name
from nnc.core.settings import SETTINGS, usable_processors
from nnc.symbolic.sharing.program_disk import KeptOnDisk, kept_on_disk


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that doctor reports; an empty text or null is something that the system does not tell."""

    cpu: str
    features: list[str]
    tiles: str
    cores: int
    threads: int
    memory_bytes: int | None
    memory_limit_bytes: int | None
    platform: str
    versions: dict[str, str]
    backends: dict[str, str]
    devices: list[DeviceReport]
    cache_folder: str | None
    cache_writable: bool
    kept_programs: int
    kept_bytes: int
    kept_kernel_bytes: int
    compiled: Compilations
    programs: KeptOnDisk
    profile: MachineProfile | None


Measure = Annotated[
    bool, typer.Option("--measure", help="Measure the machine and its devices, in some seconds, and keep the result.")
]


def doctor(json: AsJson = False, measure: Measure = False) -> int:
    """Tell the processor, the backends and devices (and why one is absent), versions and the cache folder.

    nnc doctor --json

    nnc doctor --measure
    """
    findings = examine(measured=measure)
    if json:
        write_json(_facts(findings))
        return 0
    console = output()
    console.print(_machine(findings))
    backends = table("Backends, in order of preference", "name", "state")
    for name, why in findings.backends.items():
        add_row(backends, name, f"absent: {why}" if why else "present")
    console.print(backends)
    devices = table("Devices beside the processor", "device", "what it is")
    for report in findings.devices:
        add_row(devices, report.device, _device(report))
    console.print(devices)
    console.print(_pairs("Versions", findings.versions))
    if findings.profile is not None:
        console.print(_pairs("One worker, as measured", _measured(findings.profile)))
    return 0


def examine(*, measured: bool = False) -> Findings:
    """Look at the machine and the environment; the profile is the kept one, or `measured` now."""
    cache = SETTINGS.cache_folder
    return Findings(
        cpu=processor_name(),
        features=_features(),
        tiles=_tiles(),
        cores=len(usable_processors()),
        threads=SETTINGS.worker_count(),
        memory_bytes=machine_memory(),
        memory_limit_bytes=group_limit(),
        platform=platform.platform(),
        versions=versions(),
        devices=device_reports(measured=measured),
        backends={backend.name: backend.absence() for backend in DISPATCHER.backends.values()},
        cache_folder=None if cache is None else str(cache),
        cache_writable=cache is not None and can_write(cache),
        kept_programs=SETTINGS.kept_programs,
        kept_bytes=SETTINGS.kept_bytes,
        kept_kernel_bytes=SETTINGS.kept_kernel_bytes,
        compiled=compilations(DiskCache(cache)),
        programs=kept_on_disk(cache),
        profile=_profile(measured),
    )


def _features() -> list[str]:
    """What LLVM knows of the processor; nothing where LLVM is absent."""
    return [] if absence() else sorted(name for name, has in facts().features.items() if has)


def _tiles() -> str:
    if why := DISPATCHER.backends["llvm"].absence():
        return f"not used: {why}"
    return "used" if host_target().tiles else f"not used: {tiles_absence() or 'NNC_LLVM_CPU names a level'}"


def _profile(measured: bool) -> MachineProfile | None:
    """What was measured of this machine; the whole of it is measured here, as no plan needs it."""
    if DISPATCHER.backends["llvm"].absence():
        return None
    machine = engine()
    kept = stored_profile(machine.target, SETTINGS.cache_folder)
    if not measured and (kept is None or kept.peaks):
        return kept
    taken = measure_machine(machine, whole=True)
    keep_profile(machine.target, SETTINGS.cache_folder, taken)
    return taken


def _facts(findings: Findings) -> dict[str, Json]:
    return asdict(findings) | {
        "backends": [
            {"name": name, "present": not absence, "reason": absence} for name, absence in findings.backends.items()
        ]
    }


def _machine(findings: Findings) -> Table:
    limit = "" if findings.memory_limit_bytes is None else f", of which {size(findings.memory_limit_bytes)} may be used"
    cache = f"{findings.cache_folder} ({'writable' if findings.cache_writable else 'not writable'})"
    return _pairs(
        "Machine",
        {
            "processor": findings.cpu or "unknown",
            "features": " ".join(findings.features),
            "tiles (AMX)": findings.tiles,
            "cores usable": f"{findings.cores}, used by {findings.threads} threads",
            "memory": "unknown" if findings.memory_bytes is None else size(findings.memory_bytes) + limit,
            "platform": findings.platform,
            "cache": "none (NNC_CACHE_DIR is empty, or there is no home)" if findings.cache_folder is None else cache,
            "programs kept": f"{findings.kept_programs}, or {size(findings.kept_bytes)}, by each model and graph",
            "kernels on disk": _compiled(findings.compiled),
            "programs on disk": _programs(findings.programs),
            "kernels kept": f"{size(findings.kept_kernel_bytes)} of eager code, and those of programs",
        },
    )


def _device(report: DeviceReport) -> str:
    if report.absence:
        return f"absent: {report.absence}"
    memory = f"{size(report.memory_bytes)}{' of the host' if report.unified else ''}"
    text = f"{report.name}, {memory}, {report.subgroup} threads in step, {' '.join(report.features)}"
    if (rates := report.rates) is None:
        return text
    copies = f"to it {rates.upload:.1f}, from it {rates.download:.1f}, inside {rates.copy:.1f} GB/s"
    return f"{text}; {copies}; products {rates.gigaflops:.0f} GFLOP/s"


def _compiled(compilations: Compilations) -> str:
    times = f"compiled for {compilations.batches} programs in {compilations.seconds:.1f} s of a processor"
    return f"{compilations.kernels} in {size(compilations.nbytes)}, {times}"


def _programs(kept: KeptOnDisk) -> str:
    return f"{kept.programs} in {size(kept.program_bytes)}, and {size(kept.weight_bytes)} of weights made for them"


def _measured(profile: MachineProfile) -> dict[str, str]:
    return {
        "clock": f"{profile.clock:.2f} GHz",
        "multiply-adds in f32": f"{profile.multiply_adds:.0f} GFLOP/s",
        **{f"{name}, {bits} bits": f"{rate:.0f} GFLOP/s" for name, bits, rate in profile.peaks},
        **{f"level {cach.level}": _cache(cach) for cach in profile.caches},
        "memory": f"reads {profile.memory_loads:.1f} B/ns, writes {profile.memory_stores:.1f} B/ns",
        "a line of a page": _touches(profile.page_touches),
        "of huge pages": f"{_touches(profile.huge_touches)} (the system: {profile.huge_pages or 'does not tell'})",
        **(_meetings(profile) if profile.meeting else {}),
        "products": "read their operands in place" if profile.in_place else "pack their operands",
        "measured": f"{profile.times} x, {profile.absent:.0%} of the time without a processor",
    }


def _meetings(profile: MachineProfile) -> dict[str, str]:
    """Of two workers, where the process that measured had two."""
    return {
        "two workers meet": f"{profile.meeting:.0f} ns, {profile.handing:.0f} ns where they read each other's results",
        "a worker that slept": f"begins after {profile.waking / 1000:.0f} us",
    }


def _cache(level: CacheLevel) -> str:
    rates = f"{level.loads:.0f} B/ns inside" + (f", {level.beyond:.0f} B/ns beyond" if level.beyond else "")
    seen = "" if level.is_seen else "; no such size was measured, so plans do not follow it"
    return f"{size(level.nbytes)}, {level.ways} ways, lines of {level.line} B, {rates}{seen}"


def _touches(touches: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{each:.2f} ns of {pages}" for pages, each in touches)


def _pairs(title: str, pairs: Mapping[str, str]) -> Table:
    result = table(title, "what", "value")
    for what, value in pairs.items():
        add_row(result, what, value)
    return result
