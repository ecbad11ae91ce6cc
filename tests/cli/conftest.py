"""Ways to run the command line: inside this process, and as users do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import pytest
from tests.forks import COMMAND_LINE, COMMANDS, ForkedProgram, forking

from nnc.cli.main import main
from nnc.core.settings import SETTINGS


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    def complaint(self) -> str:
        """The one line on standard error of a call that was refused."""
        assert self.code == 2
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("nnc: ")
        return line.removeprefix("nnc: ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one; commands run there see a wide screen and no wish about colour."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ran]]:
    """Run a command in this process, in `folder`."""
    threads, cache_folder = SETTINGS.threads, SETTINGS.cache_folder

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    yield run
    SETTINGS.threads, SETTINGS.cache_folder = threads, cache_folder


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., ForkedProgram]]:
    """Start a command in a process of its own, in `folder`, with pipes for both outputs."""
    started: list[ForkedProgram] = []

    def run(*arguments: str, stdout: int = PIPE, stderr: int = PIPE, **environment: str) -> ForkedProgram:
        surroundings = os.environ | environment
        options = {"cwd": folder, "env": surroundings, "stdout": stdout, "stderr": stderr}
        process = forking(COMMANDS).start(COMMAND_LINE, *arguments, **options)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def shell(start: Callable[..., ForkedProgram]) -> Callable[..., Ran]:
    """Run a command in a process of its own to its end."""

    def run(*arguments: str, **environment: str) -> Ran:
        process = start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return Ran(process.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of two epochs with seed 0 on the reference backend."""
    checkpoint = tmp_path_factory.mktemp("trained") / "digits.safetensors"
    options = ("--epochs", "2", "--backend", "reference", "--checkpoint", str(checkpoint))
    code, _, told = forking(COMMANDS).run(COMMAND_LINE, "train", "digits", *options)
    assert code == 0, told
    return checkpoint
