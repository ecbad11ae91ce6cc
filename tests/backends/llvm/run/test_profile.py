from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nnc.backends.llvm.ir.target import host_target
from nnc.backends.llvm.run import engine as engines
from nnc.backends.llvm.run import profile as profiles
from nnc.backends.llvm.run.profile import CacheLevel, MachineProfile, keep_profile, kept_profile, profile_of
from nnc.core.settings import SETTINGS

LEVELS = (CacheLevel(1, 1 << 15, 8, 64, 100.0), CacheLevel(2, 1 << 20, 16, 64, 50.0))
PROFILE = MachineProfile("some", 3.0, 90.0, LEVELS, 20.0, 10.0, ((16, 0.5), (4096, 8.0)), 50.0, 60_000.0, False)


def test_a_profile_is_kept_by_processor_and_level(tmp_path: Path) -> None:
    target = host_target()
    keep_profile(target, tmp_path, PROFILE)
    assert kept_profile(target, tmp_path) == PROFILE
    assert kept_profile(replace(target, processor="another"), tmp_path) is None
    assert kept_profile(target, None) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"form": 0}', json.dumps({**json.loads(PROFILE.text()), "caches": 1})]
)
def test_what_is_no_profile_is_measured_again(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        profile_of(text)
    monkeypatch.setattr(MachineProfile, "text", lambda self: text)
    keep_profile(host_target(), tmp_path, PROFILE)
    assert kept_profile(host_target(), tmp_path) is None


def test_caches_are_those_for_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (level, kind, size) in enumerate([(1, "Data", "48K"), (1, "Instruction", "32K"), (3, "Unified", "2M")]):
        place = tmp_path / f"index{number}"
        place.mkdir()
        facts = {"level": level, "type": kind, "size": size, "ways_of_associativity": 12, "coherency_line_size": 64}
        for name, value in facts.items():
            (place / name).write_text(f"{value}\n")
    (tmp_path / "index9").mkdir()
    monkeypatch.setattr(profiles, "CACHES", tmp_path)
    assert profiles.caches() == (CacheLevel(1, 48 << 10, 12, 64), CacheLevel(3, 2 << 20, 12, 64))


def test_an_engine_follows_the_profile_that_is_kept_and_measures_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[engines.Engine] = []

    def measure(machine: engines.Engine) -> MachineProfile:
        measured.append(machine)
        return replace(PROFILE, in_place=not machine.target.in_place)

    monkeypatch.setattr(engines, "_MEASURES", [measure])
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    first, second = engines.made.__wrapped__(), engines.made.__wrapped__()
    assert len(measured) == 1
    usual = measured[0].target.in_place
    assert (first.target.in_place, second.target.in_place) == (not usual, not usual)
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    assert engines.made.__wrapped__().target.in_place == usual
    assert len(measured) == 1
