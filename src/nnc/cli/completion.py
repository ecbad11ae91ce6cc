"""nnc completion: what a shell needs to complete commands and options."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from nnc.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

Shell = Annotated[str, typer.Argument(metavar="SHELL", help=f"One of: {', '.join(SHELLS)}.")]


def completion(shell: Shell) -> int:
    """Print the script that lets a shell complete commands and options.

    nnc completion bash >> ~/.bashrc

    nnc completion zsh > ~/.zfunc/_nnc

    nnc completion fish > ~/.config/fish/completions/nnc.fish
    """
    if shell not in SHELLS:
        raise UsageError("completion", got=repr(shell), need=f"one of {', '.join(SHELLS)}")
    sys.stdout.write(get_completion_script(prog_name="nnc", complete_var="_NNC_COMPLETE", shell=shell) + "\n")
    return 0
