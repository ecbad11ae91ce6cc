from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from nnc.backends.llvm.run import engine as engines
from nnc.backends.llvm.run import profile as profiles
from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.profile import CacheLevel, MachineProfile, keep_profile, profile_of, stored_profile
from nnc.core.running.llvm_library import facts
from nnc.core.settings import SETTINGS

LEVELS = (CacheLevel(1, 3 << 14, 12, 128, 100.0, 50.0), CacheLevel(2, 1 << 20, 16, 128, 50.0, 10.0))
PROFILE = MachineProfile(
    "some", 3.0, 90.0, (("f32", 256, 90.0),), LEVELS, 20.0, 10.0, ((16, 0.5), (4096, 8.0)), ((16, 0.5),), "madvise",
    50.0, 2000.0, 60_000.0, False,
)  # fmt: skip


def test_a_profile_is_kept_by_processor_and_level(tmp_path: Path) -> None:
    target = host_target()
    keep_profile(target, tmp_path, PROFILE)
    assert stored_profile(target, tmp_path) == PROFILE
    assert stored_profile(replace(target, processor="another"), tmp_path) is None
    assert stored_profile(target, None) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"form": 0}', json.dumps({**json.loads(PROFILE.text()), "caches": 1})]
)
def test_what_is_no_profile_is_measured_again(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        profile_of(text)
    monkeypatch.setattr(MachineProfile, "text", lambda self: text)
    keep_profile(host_target(), tmp_path, PROFILE)
    assert stored_profile(host_target(), tmp_path) is None


def test_caches_are_those_for_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (level, kind, size) in enumerate([(1, "Data", "48K"), (1, "Instruction", "32K"), (3, "Unified", "2M")]):
        place = tmp_path / "cpu0" / "cache" / f"index{number}"
        place.mkdir(parents=True)
        facts = {"level": level, "type": kind, "size": size, "ways_of_associativity": 12, "coherency_line_size": 64}
        for name, value in facts.items():
            (place / name).write_text(f"{value}\n")
    (tmp_path / "cpu0" / "cache" / "index9").mkdir()
    monkeypatch.setattr(profiles, "PROCESSORS", tmp_path)
    monkeypatch.setattr(profiles, "usable_processors", lambda: [0])
    assert profiles.caches() == (CacheLevel(1, 48 << 10, 12, 64), CacheLevel(3, 2 << 20, 12, 64))


def test_of_processors_unlike_each_other_the_smallest_caches_count_that_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for processor, size in ((0, "16K"), (4, "48K"), (5, "32K"), (6, "nothing")):
        place = tmp_path / f"cpu{processor}" / "cache" / "index0"
        place.mkdir(parents=True)
        for name, value in {"level": 1, "type": "Data", "size": size, "ways_of_associativity": 8}.items():
            (place / name).write_text(f"{value}\n")
    monkeypatch.setattr(profiles, "PROCESSORS", tmp_path)
    monkeypatch.setattr(profiles, "usable_processors", lambda: [4, 5, 6, 7])
    assert profiles.caches() == (CacheLevel(1, 32 << 10, 8, 64),)
    monkeypatch.setattr(profiles, "usable_processors", lambda: [7])
    assert profiles.caches() == ()


def test_an_engine_follows_the_profile_that_is_kept_and_measures_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[engines.Engine] = []

    def measure(machine: engines.Engine) -> MachineProfile:
        measured.append(machine)
        return replace(PROFILE, in_place=not machine.target.in_place)

    monkeypatch.setattr(engines, "_MEASURES", [measure])
    monkeypatch.setattr(engines, "shipped", lambda target: None)
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    first, second = engines.made.__wrapped__(), engines.made.__wrapped__()
    assert len(measured) == 1
    usual = measured[0].target.in_place
    assert (first.target.in_place, second.target.in_place) == (not usual, not usual)
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    assert engines.made.__wrapped__().target.in_place == usual
    assert len(measured) == 1


def test_what_was_measured_beside_other_work_is_measured_again_and_the_faster_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tuple(replace(level, loads=level.loads / 3) for level in LEVELS)
    turns = [
        replace(PROFILE, multiply_adds=45.0, absent=0.5, caches=slow, in_place=True),
        replace(PROFILE, clock=1.0, absent=0.4, handing=0.0),
        replace(PROFILE, clock=2.0, absent=0.6, handing=900.0, in_place=True),
    ]
    left = iter(turns)
    monkeypatch.setattr(engines, "_MEASURES", [lambda machine: next(left)])
    monkeypatch.setattr(engines, "shipped", lambda target: None)
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    kept = []
    for _ in range(5):
        engines.made.__wrapped__()
        kept.append(stored_profile(host_target(), tmp_path))
    assert next(left, None) is None
    assert kept[2] == kept[4] == replace(PROFILE, absent=0.4, handing=900.0, times=3)
    assert [one.is_doubtful for one in kept if one] == [True, True, False, False, False]


def test_a_folder_that_cannot_be_written_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(engines, "_MEASURES", [lambda machine: pytest.fail("measured")])
    monkeypatch.setattr(engines, "shipped", lambda target: None)
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path / "file")
    assert engines.made.__wrapped__().target == host_target()


def test_a_family_that_was_tried_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(host_target(), in_place=not host_target().in_place)
    monkeypatch.setattr(engines, "_MEASURES", [lambda machine: pytest.fail("measured")])
    monkeypatch.setattr(engines, "shipped", lambda target: known)
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    assert engines.made.__wrapped__().target == known
    keep_profile(host_target(), tmp_path, PROFILE)
    assert engines.made.__wrapped__().target == PROFILE.followed(known)


def test_processes_that_measure_at_once_leave_one_whole_profile(tmp_path: Path) -> None:
    target, clocks = host_target(), [1.0 + number for number in range(4)]
    with ThreadPoolExecutor(len(clocks)) as pool:
        for _ in range(5):
            list(pool.map(lambda clock: keep_profile(target, tmp_path, replace(PROFILE, clock=clock)), clocks))
    found = stored_profile(target, tmp_path)
    assert found in [replace(PROFILE, clock=clock) for clock in clocks]


# As such machines tell of themselves: level, bytes, ways, bytes of a line, loads inside and beyond.
TOLD = {
    "Zen 3": (
        (1, 32 << 10, 8, 64, 200.0, 100.0),
        (2, 512 << 10, 8, 64, 100.0, 40.0),
        (3, 32 << 20, 16, 64, 40.0, 20.0),
    ),
    "Apple-like": ((1, 128 << 10, 8, 128, 190.0, 90.0), (2, 12 << 20, 12, 128, 90.0, 60.0)),
    "four cores with 1 MB": ((1, 48 << 10, 12, 64, 200.0, 80.0), (2, 1 << 20, 16, 64, 80.0, 15.0)),
    "a container that tells nothing": (),
    "lines of a page": ((1, 32 << 10, 8, 4096, 200.0, 100.0), (2, 512 << 10, 0, 0, 100.0, 40.0)),
    "more ways than lines": ((1, 32 << 10, 1 << 20, 64, 200.0, 100.0), (2, 4096, 1, 64, 100.0, 40.0)),
    "sizes of nothing": ((1, 0, 0, 0, 0.0, 0.0), (2, 0, 0, 0, 0.0, 0.0), (3, 0, 0, 0, 0.0, 0.0)),
    "a clock that stands": ((1, 32 << 10, 8, 64, 1e9, 1e9), (2, 512 << 10, 8, 64, 1e9, 1e9)),
}


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.0, 1e6])
def test_plans_are_sane_whatever_a_machine_tells(name: str, share: float) -> None:
    levels = tuple(CacheLevel(*told) for told in TOLD[name])
    told = replace(PROFILE, caches=levels, clock=3.0 * share, multiply_adds=90.0 * share, handing=2000.0 * share)
    target = replace(host_target(), vector_bits=256, vector_registers=16)
    machine = told.followed(target).machine
    assert 8 << 10 <= machine.level_one_bytes <= 128 << 10
    assert 64 <= machine.line_bytes <= 128
    assert machine.line_bytes <= machine.way_bytes
    assert 512 << 10 <= machine.level_two_bytes <= 12 << 20
    assert 0.5 <= machine.clock <= 8.0
    assert 0.25 <= machine.multiply_adds <= 4.0
    assert 0.0 < machine.near_byte <= 0.5
    assert 0.0 < machine.pace <= 6.0


def test_blocks_and_costs_follow_what_was_measured() -> None:
    target = host_target()
    found = replace(PROFILE, clock=6.0, multiply_adds=2 * 12.0 * target.lanes(32)).followed(target)
    machine = found.machine
    assert (machine.level_one_bytes, machine.level_one_ways, machine.level_two_bytes) == (3 << 14, 12, 1 << 20)
    assert (machine.line_bytes, machine.clock, machine.multiply_adds, machine.meeting) == (128, 6.0, 2.0, 2000.0)
    assert machine.near_byte == machine.far_byte == 0.04
    assert machine.pace == 0.25
    assert not found.in_place
    for usual in (False, True):
        assert (
            replace(PROFILE, in_place=not usual, absent=0.3).followed(replace(target, in_place=usual)).in_place == usual
        )


def test_a_second_level_cache_that_was_not_seen_is_not_followed() -> None:
    target = host_target()
    unseen = replace(LEVELS[1], beyond=LEVELS[1].loads)
    assert replace(PROFILE, caches=(LEVELS[0], unseen)).followed(target).machine.level_two_bytes == 512 << 10
    assert replace(PROFILE, caches=()).followed(target).machine.level_one_bytes == 32 << 10


def test_a_level_without_bytes_or_rates_is_not_followed() -> None:
    target = host_target()
    odd = replace(PROFILE, caches=(*LEVELS, CacheLevel(3, 0, 0, 64)), meeting=0.0, handing=0.0, waking=0.0)
    machine = odd.followed(target).machine
    assert (machine.far_byte, machine.meeting) == (target.machine.far_byte, target.machine.meeting)
    assert machine.level_two_bytes == 1 << 20
    assert replace(PROFILE, caches=()).followed(target).machine.level_two_bytes == target.machine.level_two_bytes


def test_what_is_measured_beside_other_work_is_believed_within_limits() -> None:
    slow = replace(
        PROFILE, clock=0.0, multiply_adds=0.0, handing=1e9, caches=(LEVELS[0], replace(LEVELS[1], loads=1e-9))
    )
    machine = slow.followed(host_target()).machine
    assert (machine.clock, machine.multiply_adds, machine.meeting) == (0.5, 0.25, 20_000.0)


@pytest.mark.parametrize("family", ["znver3", "znver4", "sapphirerapids", "emeraldrapids"])
def test_what_is_shipped_of_a_family_is_followed_where_nothing_is_kept(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, told = host_target(), facts()
    monkeypatch.setattr(profiles, "facts", lambda: replace(told, processor=family))
    target = replace(target, vector_bits=256, in_place=True)
    found = profiles.shipped(target)
    assert found is not None
    assert not found.in_place
    assert found.machine.level_two_bytes >= 512 << 10
    assert profiles.shipped(replace(target, vector_bits=128)) is None
    monkeypatch.setattr(profiles, "facts", lambda: replace(told, processor="another"))
    assert profiles.shipped(target) is None


def test_the_system_tells_when_pages_are_huge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "enabled"
    monkeypatch.setattr(profiles, "HUGE_PAGES", place)
    assert profiles.huge_pages() == ""
    place.write_text("always [madvise] never\n")
    assert profiles.huge_pages() == "madvise"


def test_what_is_about_as_fast_as_before_changes_no_key() -> None:
    quicker = [replace(level, loads=level.loads * 1.1, beyond=level.beyond * 1.05) for level in LEVELS]
    again = replace(
        PROFILE, clock=3.1, multiply_adds=92.0, caches=tuple(quicker), meeting=48.0, handing=1900.0, absent=0.05
    )
    joined, target = again.joined(replace(PROFILE, absent=0.05)), host_target()
    assert joined.followed(target) == PROFILE.followed(target)
    assert joined.times == PROFILE.times + 1
    faster = replace(again, handing=1500.0).joined(PROFILE)
    assert faster.handing == 1500.0
    assert faster.clock == PROFILE.clock
