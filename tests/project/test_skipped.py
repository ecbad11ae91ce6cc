"""The last line of `scripts/test` says what did not run and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.skipped import told

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

pytest.importorskip("sys")
{module}

def test_runs():
    pass

@pytest.mark.parametrize("number", range(3))
def test_is_skipped_inside(number):
    pytest.skip("no chromium on this machine")

@pytest.mark.skipif(True, reason="no conversion of f16 here")
def test_is_skipped_by_a_mark():
    pass
"""


BROKEN = """
import pytest

@pytest.fixture(params=["before", "behind"])
def breaks(request):
    assert request.param == "behind"
    yield
    assert not request.param

def test_breaks(breaks):
    pass

def test_fails():
    assert not "in the test"
"""


def last_lines(folder: Path, *options: str, broken: str = "") -> list[str]:
    """Of a run of pytest in a folder with this project's conftest."""
    (folder / "conftest.py").write_text(
        "from tests.conftest import pytest_runtest_protocol, pytest_unconfigure\n", encoding="utf-8"
    )
    (folder / "test_whole.py").write_text(TESTS.format(module=""), encoding="utf-8")
    absent = 'pytest.importorskip("nowhere_to_be_had", reason="nowhere is not installed")'
    (folder / "test_absent.py").write_text(TESTS.format(module=absent), encoding="utf-8")
    (folder / "test_broken.py").write_text(broken, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, *options]
    ran = subprocess.run(
        [*command, folder], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert ran.returncode == bool(broken), ran.stdout + ran.stderr
    return ran.stdout.splitlines()[-2:]


def test_the_last_line_counts_what_was_skipped_by_reason(tmp_path: Path) -> None:
    summary, last = last_lines(tmp_path)
    assert summary.startswith("1 passed, 5 skipped")
    assert last == (
        "skipped: 5; 3: no chromium on this machine; 1: nowhere is not installed; 1: no conversion of f16 here"
    )


def test_scripts_test_tells_it_behind_everything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to a file there, as mypy is told behind pytest; programs that tests start do not see that file.

    Workers say nothing of their own but what breaks around a test.
    """
    monkeypatch.setenv("SKIPPED_LINE", str(tmp_path / "line"))
    _, last = last_lines(tmp_path, "-n", "1", broken=BROKEN)
    assert last.startswith("1 failed, 2 passed, 5 skipped, 2 errors")
    assert (tmp_path / "line").read_text().startswith("skipped: 5; 3: no chromium on this machine; ")
    script = (ROOT / "scripts" / "test").read_text().splitlines()
    assert script[-2:] == ['cat "$told" "$skipped"', 'exit "$status"']


def test_nothing_skipped_is_said_too() -> None:
    assert told(()) == "skipped: 0"
