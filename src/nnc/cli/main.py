"""The command line: `nnc COMMAND ...`. Errors become one line on standard error and an exit code.

0    done                                2    something the caller can mend: the line says how
1    memplan: the capacity is not met    70   our own bug; NNC_DEBUG=1 shows where
130  stopped by Ctrl-C                   143  stopped by SIGTERM
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper, UnsupportedOperation
from typing import Annotated

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from nnc import __version__
from nnc.cli.completion import completion
from nnc.cli.doctor import doctor
from nnc.cli.files.bench import bench
from nnc.cli.files.build import build
from nnc.cli.files.convert import convert
from nnc.cli.files.coverage import onnx_coverage
from nnc.cli.files.finetune import finetune
from nnc.cli.files.inspect import inspect
from nnc.cli.files.plan import plan
from nnc.cli.files.run import run
from nnc.cli.files.verify import verify
from nnc.cli.files.warm import warm
from nnc.cli.generate import generate
from nnc.cli.interrupt import settled
from nnc.cli.language.chat import chat
from nnc.cli.language.embed import embed
from nnc.cli.language.quantize import quantize
from nnc.cli.language.serve import serve
from nnc.cli.language.tuning import merge
from nnc.cli.launch import launch
from nnc.cli.memplan import memplan
from nnc.cli.operators import ops
from nnc.cli.predict import predict
from nnc.cli.terminal import complain
from nnc.cli.train import train
from nnc.cli.viz import viz
from nnc.core.precautions.origin import inherited_origin
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError

PIPE_CLOSED = 1
USAGE = 2
INTERNAL = 70

COMMANDS: tuple[Callable[..., int], ...] = (
    train, predict, generate, chat, serve, embed, quantize, run, plan, viz, inspect, verify, bench, warm, launch,
    finetune, merge, convert, build, memplan, ops, onnx_coverage, doctor, completion,
)  # fmt: skip
# What stands behind a script belongs to it.
CONTEXTS: Mapping[Callable[..., int], dict[str, bool]] = {
    launch: {"allow_interspersed_args": False, "ignore_unknown_options": True}
}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def nnc(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A neural network collection: train, look inside, and know the memory before a run."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def application() -> typer.Typer:
    """All commands."""
    completion_init()
    app = typer.Typer(
        name="nnc",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(nnc)
    for command in COMMANDS:
        app.command(context_settings=CONTEXTS.get(command))(command)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (of `sys.argv` if no arguments are given); returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark instead of a failure.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        # Nobody's line: what is built here is the command's, and the frame above us is in a library.
        with inherited_origin(""):
            code = application()(arguments, prog_name="nnc", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except BrokenPipeError:
        _abandon_output()
        return PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return 128 + signal.SIGINT
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        place = context.command_path if context else "nnc"
        message = error.format_message()
        complain(f"{message}{'' if message.endswith(('.', '?')) else '.'} Fix: see {place} --help")
        return USAGE
    except UsageError as error:
        complain(str(error))
        return USAGE
    except OSError as error:
        if error.filename is None:
            _abandon_output()
        reason = (error.strerror or str(error)).lower()
        complain(f"{error.filename or 'output'}: got {reason}; need a file that can be used. Fix: name another")
        return USAGE
    except Exception as error:
        if SETTINGS.debug:
            raise
        complain(f"a bug in nnc: {type(error).__name__}: {error}. Fix: report what it prints with NNC_DEBUG=1")
        return INTERNAL


def _abandon_output() -> None:
    """Nobody can take our output: say no more, also not when the interpreter closes the stream."""
    with suppress(UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def process() -> int:
    """`main` of a process that ends with it."""
    return settled(main())


if __name__ == "__main__":
    sys.exit(process())
