"""The scripts, run on a stand-in checkout that installs without a network: no dependencies, its own build backend."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELL_SCRIPTS = [
    ROOT / "scripts" / name for name in ("nnc", "test", "test-versions", "format", "fuzz", "docs", "environment.sh")
] + [ROOT / ".ci" / "run"]
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "nnc"
version = "0"
"""
BACKEND = '''\
"""The least that pip needs for an editable install."""

import os
import zipfile

INFO = "nnc-0.dist-info/"


def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(os.path.join(folder, "nnc-0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("nnc.pth", os.path.abspath("src"))
        wheel.writestr(INFO + "METADATA", "Metadata-Version: 2.1\\nName: nnc\\nVersion: 0\\nProvides-Extra: test\\n")
        wheel.writestr(INFO + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(INFO + "RECORD", "")
    return "nnc-0-py3-none-any.whl"
'''
COMMAND_LINE = "import os, sys\n\n\ndef process():\n    print(sys.argv[1:], os.getcwd(), sys.stdin.read())\n"
STAMP = "nnc-environment.stamp"


def stand_in(folder: Path, project: str = PROJECT) -> Path:
    """A checkout with the real scripts around an empty package."""
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / "src" / "nnc" / "cli").mkdir(parents=True)
    (folder / "src" / "nnc" / "cli" / "main.py").write_text(COMMAND_LINE)
    shutil.copy(ROOT / "src" / "nnc_start.py", folder / "src")
    (folder / "pyproject.toml").write_text(project)
    (folder / "backend.py").write_text(BACKEND)
    return folder


def surroundings(checkout: Path, **more: str) -> dict[str, str]:
    """An empty environment but for PATH, without any package index and with a home that is not there."""
    path = f"{Path(sys.executable).resolve().parent}:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(checkout / "no home"), "PIP_NO_INDEX": "1", **more}


def call(checkout: Path, *arguments: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts" / "nnc", *arguments],
        env=surroundings(checkout, **more),
        cwd=cwd,
        input="typed",
        capture_output=True,
        text=True,
        check=False,
    )


def log_time(checkout: Path) -> int:
    """Changes whenever pip runs."""
    return (checkout / ".venv" / "nnc-environment.log").stat().st_mtime_ns


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One environment for all tests that leave it fresh; the first call tells what it does on standard error."""
    made = stand_in(tmp_path_factory.mktemp("a path") / "with spaces")
    first = call(made, "first", cwd=made)
    assert (first.returncode, first.stdout) == (0, f"['first'] {made} typed\n"), first.stderr
    assert first.stderr.startswith("nnc: making ")
    assert first.stderr.count("\n") == 1
    return made


def bin_with(folder: Path, **programs: str) -> str:
    """A PATH of the few tools that the scripts need, and the given programs."""
    folder.mkdir()
    for tool in ("sh", "dirname", "readlink", "cat", "cmp"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("script", SHELL_SCRIPTS, ids=lambda script: script.name)
def test_shell_scripts_are_posix(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)
    bashisms = ("[[", "function ", "source ", "local ", "<<<", "$'", "&>", "pipefail", "==")
    text = script.read_text()
    assert [sign for sign in bashisms if sign in text] == []
    assert text.startswith("#!/bin/sh\n") == os.access(script, os.X_OK)


def test_continuous_integration_calls_the_tests_alone() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert commands == ['exec "$(dirname -- "$0")/../scripts/test"']


def test_the_browser_s_commands_are_told_without_an_environment() -> None:
    told = subprocess.run(
        ["sh", ROOT / "scripts" / "docs", "--install-browser"], capture_output=True, text=True, check=True
    )
    assert "apt install chromium\n" in told.stdout
    assert "scripts/test tests/cli/test_page_in_browser.py" in told.stdout
    assert told.stderr == ""


def test_a_second_call_installs_nothing_and_says_nothing(checkout: Path, tmp_path: Path) -> None:
    before = log_time(checkout)
    (tmp_path / "nnc").mkdir()
    (tmp_path / "nnc" / "__init__.py").write_text("raise SystemExit('the folder of the caller must not matter')\n")
    second = call(checkout, "a b", "", cwd=tmp_path)
    assert (second.returncode, second.stdout, second.stderr) == (0, f"['a b', ''] {tmp_path} typed\n", "")
    assert log_time(checkout) == before


def test_a_link_to_the_script_works(checkout: Path, tmp_path: Path) -> None:
    link = tmp_path / "nnc"
    link.symlink_to(checkout / "scripts" / "nnc")
    found = subprocess.run(
        [link], env=surroundings(checkout), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, b"")


def test_a_changed_project_is_installed_again(checkout: Path) -> None:
    before = log_time(checkout)
    project = checkout / "pyproject.toml"
    project.write_text(project.read_text() + "\n# changed\n")
    changed = call(checkout)
    assert (changed.returncode, changed.stderr) == (0, f"nnc: updating {checkout}/.venv\n")
    assert log_time(checkout) != before
    assert call(checkout).stderr == ""


def test_what_tests_need_is_installed_when_a_script_asks_for_it(checkout: Path) -> None:
    script = checkout / "scripts" / "checks"
    begin = 'scripts=$(dirname -- "$(readlink -f -- "$0")")'
    script.write_text(f'#!/bin/sh\nset -eu\n{begin}\nextra=test\n. "$scripts/environment.sh"\n')
    script.chmod(0o755)
    for said in (f"checks: updating {checkout}/.venv\n", ""):
        process = subprocess.run([script], env=surroundings(checkout), capture_output=True, text=True, check=False)
        assert (process.returncode, process.stderr) == (0, said)


@pytest.mark.nightly("environments are made by the other tests here")
def test_after_a_lost_interpreter_and_a_kill_two_calls_at_once_make_one_environment(checkout: Path) -> None:
    environment, command = checkout / ".venv", [checkout / "scripts" / "nnc"]
    for name in ("bin/python", "pyvenv.cfg"):
        (environment / name).unlink()
    (environment / "half").touch()
    process = subprocess.Popen(
        command, env=surroundings(checkout), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    while not (environment / "pyvenv.cfg").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.communicate()[1].startswith(b"nnc: making ")
    assert not (environment / STAMP).exists()
    (environment / "half").touch()

    both = [
        subprocess.Popen(
            command,
            env=surroundings(checkout),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum(errors.count("making") for _, errors in outputs if not errors.startswith("nnc: waiting")) == 1
    assert not (environment / "half").exists()
    assert call(checkout).stderr == ""


def test_an_impossible_install_is_one_line(checkout: Path, tmp_path: Path) -> None:
    made = stand_in(tmp_path / "checkout", PROJECT.replace("requires = []", 'requires = ["a-package-of-nobody"]'))
    # As if its environment were there and the project had changed: an update runs pip as well, and no more.
    shutil.copytree(checkout / ".venv", made / ".venv", symlinks=True)
    stamp = made / ".venv" / STAMP
    stamp.write_text(stamp.read_text().replace(str(checkout), str(made)))
    failed = call(made)
    assert (failed.returncode, failed.stdout) == (1, "")
    updating, reason = failed.stderr.splitlines()
    assert updating.startswith("nnc: updating ")
    assert reason.startswith("nnc: pip failed: No matching distribution found for a-package-of-nobody.")
    assert "Fix: check the network, then call again." in reason
    assert not stamp.exists()


def test_what_others_made_is_left_alone(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    refused = call(checkout, NNC_VENV=str(tmp_path))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"nnc: {tmp_path} was not made by this script. Fix: remove it, or set NNC_VENV to a new path.\n"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious"]


def test_a_path_that_cannot_be_written(checkout: Path) -> None:
    refused = call(checkout, NNC_VENV="/dev/null/environment")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert refused.stderr.endswith("Fix: set NNC_VENV to a path that can be written.\n")


def test_no_python(tmp_path: Path) -> None:
    made = stand_in(tmp_path / "checkout")
    old = bin_with(tmp_path / "bin", python3='case "$2" in *version_info*) exit 1;; esac')
    refused = call(made, PATH=old)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("nnc: need Python >= 3.11 as python3 ")
    assert refused.stderr.count("\n") == 1


def test_a_python_that_cannot_make_environments(tmp_path: Path) -> None:
    made = stand_in(tmp_path / "checkout")
    incomplete = bin_with(tmp_path / "bin", python3='case "$2" in *ensurepip*) exit 1;; esac')
    refused = call(made, PATH=incomplete)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("nnc: python3 cannot make environments (no ensurepip). Fix: install python3-venv")
    assert refused.stderr.count("\n") == 1
