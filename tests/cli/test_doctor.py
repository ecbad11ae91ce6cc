"""nnc doctor: what is on this machine."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest
from tests.forks import LIBRARIES, forking

from nnc import __version__
from nnc.cli import device_rates
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.settings import SETTINGS


@pytest.fixture
def facts(call):
    """Run doctor and read its object."""

    def read() -> dict[str, object]:
        ran = call("doctor", "--json")
        assert (ran.code, ran.err) == (0, "")
        return json.loads(ran.out)

    return read


def test_json_tells_the_machine(facts) -> None:
    found = facts()
    assert found.keys() == {
        "cpu",
        "features",
        "tiles",
        "cores",
        "threads",
        "memory_bytes",
        "memory_limit_bytes",
        "platform",
        "versions",
        "backends",
        "devices",
        "cache_folder",
        "cache_writable",
        "kept_programs",
        "kept_bytes",
        "kept_kernel_bytes",
        "compiled",
        "programs",
        "profile",
    }
    assert found["cpu"]
    assert found["features"] == sorted(found["features"])
    assert found["cores"] >= 1
    assert found["platform"] == platform.platform()
    versions = found["versions"]
    assert (versions["nnc"], versions["python"]) == (__version__, platform.python_version())
    assert versions["numpy"] == np.__version__
    assert "absent" not in versions.values()


def test_an_absent_backend_has_its_reason(call, facts, monkeypatch) -> None:
    class Absent:
        name = "elsewhere"

        def absence(self) -> str:
            return "no device"

    monkeypatch.setitem(DISPATCHER.backends, "elsewhere", Absent())
    assert facts()["backends"][-1] == {"name": "elsewhere", "present": False, "reason": "no device"}
    assert {"name": "reference", "present": True, "reason": ""} in facts()["backends"]
    assert "absent: no device" in call("doctor").out


def test_the_cache_folder(facts, call, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path / "not" / "yet")
    assert (facts()["cache_folder"], facts()["cache_writable"]) == (str(tmp_path / "not" / "yet"), True)
    (tmp_path / "not").write_text("a file")
    assert facts()["cache_writable"] is False
    assert "(not writable)" in call("doctor").out
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    assert (facts()["cache_folder"], facts()["cache_writable"]) == (None, False)
    assert "none (NNC_CACHE_DIR is empty, or there is no home)" in call("doctor").out


def test_people_read_the_same_facts(call) -> None:
    ran = call("doctor")
    assert (ran.code, ran.err) == (0, "")
    for fact in (
        "processor",
        "features",
        "tiles (AMX)",
        "cores usable",
        "memory",
        "reference",
        "llvmlite",
        platform.platform(),
    ):
        assert fact in ran.out


def test_a_machine_without_llvm_is_told_too() -> None:
    program = "import sys; sys.modules['llvmlite'] = None; from nnc.cli.main import main; main(['doctor', '--json'])"
    found = json.loads(forking(LIBRARIES).run(program)[1])
    assert (found["features"], found["profile"]) == ([], None)
    assert found["tiles"].startswith("not used: llvmlite cannot be loaded")


@pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="LLVM's code is measured")
def test_a_machine_is_measured_when_asked(call, facts, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    # Drivers that compute on the processor take 11 s for the usual product.
    monkeypatch.setattr(device_rates, "SIZE", 64)
    assert facts()["profile"] is None
    assert "GFLOP/s" in call("doctor", "--measure").out
    assert facts()["profile"]["multiply_adds"] > 0
