"""nnc completion: scripts for shells, and what they ask for."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from nnc.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_the_command(call, shell: str) -> None:
    ran = call("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert "_NNC_COMPLETE" in ran.out
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=ran.out, text=True, check=True, capture_output=True)


def test_another_shell_is_refused(call) -> None:
    assert "completion: got 'tcsh'; need one of bash, zsh, fish" in call("completion", "tcsh").complaint()


def asked(words: str) -> dict[str, str]:
    """What the script tells the command by the environment."""
    return {"_NNC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}


def test_the_command_knows_its_options(call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in asked("nnc plan --ht").items():
        monkeypatch.setenv(name, value)
    assert "--html" in call().out.split()


def test_the_command_answers_what_the_script_asks(shell) -> None:
    assert "memplan" in shell(**asked("nnc me")).out.split()
