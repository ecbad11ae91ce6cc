"""The command line as a whole: help, versions, and what an error becomes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forks import LIBRARIES, forking

from nnc import __version__
from nnc.cli import doctor, main
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError, VerificationError


@pytest.fixture
def fails_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Let `nnc doctor` raise."""

    def arrange(error: BaseException) -> None:
        def examine(*, measured: bool = False) -> None:
            raise error

        monkeypatch.setattr(doctor, "examine", examine)

    return arrange


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(call, arguments: list[str]) -> None:
    ran = call(*arguments)
    assert (ran.code, ran.err) == (0, "")
    for command in ("train", "predict", "memplan", "ops", "doctor"):
        assert f" {command} " in ran.out


@pytest.mark.parametrize("command", [name.replace("_", "-") for name in main.COMMANDS])
def test_every_command_has_help(call, command: str) -> None:
    ran = call(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "--json" in ran.out or command in ("completion", "launch")
    assert re.search(rf"^ *nnc {command}\b", ran.out, re.MULTILINE), "an example"


def test_version(shell) -> None:
    ran = shell("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"{__version__}\n", "")


def test_an_unknown_command_is_refused(call) -> None:
    assert call("trian").complaint() == "No such command 'trian'. Did you mean 'train'? Fix: see nnc --help"


def test_refusals_need_no_traceback_in_a_process_of_its_own(shell, folder) -> None:
    assert shell("train", "digitz").complaint().startswith("program: got 'digitz'; need one of digits")
    assert list(folder.iterdir()) == []


def test_a_complaint_is_one_line_without_steering_characters(call, fails_with) -> None:
    fails_with(UsageError("name\x1b[31m\nsecond line", need="less"))
    assert call("doctor").complaint() == r"name\x1b[31m\nsecond line: need less"


def test_an_unreadable_file_is_named(call, fails_with) -> None:
    fails_with(PermissionError(13, "Permission denied", "secret"))
    assert call("doctor").complaint().startswith("secret: got permission denied; ")


def test_ctrl_c_outside_training(call, fails_with) -> None:
    fails_with(KeyboardInterrupt())
    ran = call("doctor")
    assert (ran.code, ran.out) == (130, "")


def test_our_own_bugs_have_a_code_of_their_own(call, fails_with, monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "debug", False)
    fails_with(VerificationError("rule 7"))
    ran = call("doctor")
    assert (ran.code, ran.out) == (70, "")
    assert ran.err == ("nnc: a bug in nnc: VerificationError: rule 7. Fix: report what it prints with NNC_DEBUG=1\n")


def test_debug_shows_where_a_bug_is(call, fails_with, monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "debug", True)
    fails_with(VerificationError("rule 7"))
    with pytest.raises(VerificationError):
        call("doctor")


def test_a_reader_that_leaves_is_no_error(start) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start("ops", "--json", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (main.PIPE_CLOSED, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written(start) -> None:
    with open("/dev/full", "w") as full:
        process = start("ops", stdout=full.fileno())
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = err.splitlines()
    assert line.startswith("nnc: output: got no space left on device; ")


AT_AN_IMPORT = """
import importlib.abc, signal, sys, tomllib
from importlib import import_module

class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

with open("pyproject.toml", "rb") as file:
    module, _, function = tomllib.load(file)["project"]["scripts"]["nnc"].partition(":")
# As the installed command does it, where libraries have not been imported before.
for name in [*sys.modules]:
    if name.partition(".")[0] == sys.argv[1]:
        del sys.modules[name]
sys.meta_path.insert(0, Press())
sys.exit(getattr(import_module(module), function)())
"""


@pytest.mark.parametrize("name", ["nnc", "numpy", "nnc.core.settings", "typer", "nnc.cli.main"])
def test_the_installed_command_ends_without_a_trace_at_any_import(name: str) -> None:
    ran = forking(LIBRARIES).run(AT_AN_IMPORT, name, cwd=Path(__file__).parents[2])
    assert ran == (-signal.SIGINT, "", "")


def test_python_runs_the_package(folder) -> None:
    program = "import runpy; runpy.run_module('nnc', run_name='__main__', alter_sys=True)"
    assert forking(LIBRARIES).run(program, "--version", cwd=folder) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("text", ["12parsecs", "-1", "1e9", "", "MB", "0x10", "١٢MB!"])
def test_what_is_no_number_of_bytes_is_refused(call, text: str) -> None:
    ran = call("viz", "digits", "--limit", text)
    assert ran.code == 2
    assert "need bytes such as 4096, 512MB or 1.5GiB" in ran.err


def test_a_command_imports_itself_alone() -> None:
    program = "import sys; from nnc.cli.main import main; main(['memplan', '--help']); print(sorted(sys.modules))"
    code, out, _ = forking(LIBRARIES).run(program)
    assert code == 0
    assert "'nnc.cli.memplan'" in out
    assert "'nnc.cli.train'" not in out


def test_the_command_line_needs_no_extra() -> None:
    absent = "onnx=None, sklearn=None, scipy=None, PIL=None, pyarrow=None"
    program = f"import sys; sys.modules.update({absent}); from nnc.cli.main import application; application()"
    assert forking(LIBRARIES).run(program) == (0, "", "")
