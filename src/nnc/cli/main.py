"""The command line: `nnc COMMAND ...`. Errors become one line on standard error and an exit code.

0    done                                2    something the caller can mend: the line says how
1    memplan: the capacity is not met    70   our own bug; NNC_DEBUG=1 shows where
130  stopped by Ctrl-C                   143  stopped by SIGTERM
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper, UnsupportedOperation
from typing import Annotated

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from nnc import __version__
from nnc.cli.interrupt import settled
from nnc.cli.terminal import complain
from nnc.core.precautions.origin import inherited_origin
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError

PIPE_CLOSED = 1
USAGE = 2
INTERNAL = 70

# Where each command is: one of them is imported, and all where none is named.
COMMANDS: Mapping[str, str] = {
    "train": "nnc.cli.train",
    "predict": "nnc.cli.predict",
    "generate": "nnc.cli.generate",
    "chat": "nnc.cli.language.chat",
    "serve": "nnc.cli.language.serve",
    "embed": "nnc.cli.language.embed",
    "quantize": "nnc.cli.language.quantize",
    "run": "nnc.cli.files.run",
    "plan": "nnc.cli.files.plan",
    "viz": "nnc.cli.viz",
    "inspect": "nnc.cli.files.inspect",
    "verify": "nnc.cli.files.verify",
    "bench": "nnc.cli.files.bench",
    "warm": "nnc.cli.files.warm",
    "launch": "nnc.cli.launch",
    "finetune": "nnc.cli.files.finetune",
    "merge": "nnc.cli.language.tuning",
    "convert": "nnc.cli.files.convert",
    "build": "nnc.cli.files.build",
    "memplan": "nnc.cli.memplan",
    "ops": "nnc.cli.operators",
    "onnx_coverage": "nnc.cli.files.coverage",
    "doctor": "nnc.cli.doctor",
    "completion": "nnc.cli.completion",
}
# What stands behind a script belongs to it.
CONTEXTS: Mapping[str, dict[str, bool]] = {"launch": {"allow_interspersed_args": False, "ignore_unknown_options": True}}


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


def application(names: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """These commands."""
    completion_init()
    app = typer.Typer(
        name="nnc",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(nnc)
    for name in names:
        app.command(context_settings=CONTEXTS.get(name))(getattr(import_module(COMMANDS[name]), name))
    return app


def _needed(arguments: Sequence[str]) -> Iterable[str]:
    """The command that is asked for; all where help, a completion or a typing error needs their names."""
    name = arguments[0].replace("-", "_") if arguments else ""
    return (name,) if name in COMMANDS else () if arguments[:1] == ["--version"] else COMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (of `sys.argv` if no arguments are given); returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark instead of a failure.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        # Nobody's line: what is built here is the command's, and the frame above us is in a library.
        with inherited_origin(""):
            asked = list(sys.argv[1:] if arguments is None else arguments)
            code = application(_needed(asked))(asked, prog_name="nnc", standalone_mode=False)
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
