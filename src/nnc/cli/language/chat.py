"""nnc chat: a conversation with a language model in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer

from nnc import language
from nnc.cli.language.model_file import (
    Adapter,
    CacheKind,
    Caching,
    Context,
    LanguageFile,
    Limit,
    MinP,
    Sinks,
    Window,
    opened,
    shown,
)
from nnc.cli.options import AsJson, BackendName, Seed, Temperature, Threads, TopK, TopP
from nnc.cli.terminal import complain, write_json
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError

System = Annotated[str, typer.Option(metavar="TEXT", help="What the model is told before the chat.")]
AnswerLength = Annotated[int, typer.Option("--length", min=1, help="The most tokens of an answer.")]
PROMPT = "> "
HELP = "/save FILE  /load FILE  /reset  /system TEXT  /quit; Ctrl-C stops an answer"


def chat(
    model: LanguageFile,
    system: System = "",
    length: AnswerLength = 512,
    context: Context = 0,
    cache: CacheKind = "f32",
    window: Window = 0,
    sinks: Sinks = 0,
    limit: Limit = None,
    adapter: Adapter = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = 0,
    backend: BackendName = "",
    threads: Threads = None,
    json: AsJson = False,
) -> int:
    """Talk with a language model; /save and /load keep a chat, /reset begins anew, Ctrl-C stops an answer.

    nnc chat model.gguf --system "You are brief." --temperature 0.7
    """
    if threads is not None:
        SETTINGS.threads = threads
    held = opened(model, context, limit, backend, adapter=adapter, caching=Caching(cache, window, sinks))
    talk = held.conversation(system)
    if sys.stdin.isatty():
        complain(HELP)
    while True:
        line = _asked()
        if line is None or line.strip() in ("/quit", "/exit"):
            return 0
        if not line.strip():
            continue
        try:
            if line.startswith("/"):
                _command(talk, line.strip())
            else:
                answer = talk.say(
                    line, length, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed
                )
                _answer(answer, json=json)
        except UsageError as error:
            complain(str(error))


def _asked() -> str | None:
    """The next line; None at the end of the input, and where Ctrl-C comes while one is awaited."""
    try:
        if sys.stdin.isatty():
            return input(PROMPT)
        line = sys.stdin.readline()
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        return None
    return line.rstrip("\n") if line else None


def _answer(pieces: Generator[str, None, None], *, json: bool) -> None:
    """Show an answer, or write it as a line of JSON; Ctrl-C ends it, and what was said of it stays in the chat."""
    written = list[str]()
    try:
        if json:
            written.extend(pieces)
        else:
            shown(pieces)
    except KeyboardInterrupt:
        pieces.close()
    if json:
        write_json({"role": "assistant", "content": "".join(written)})
        return
    sys.stdout.write("\n")
    sys.stdout.flush()


def _command(talk: language.Conversation, line: str) -> None:
    word, _, rest = line.partition(" ")
    match word, rest.strip():
        case "/reset", "":
            talk.reset()
        case "/system", text:
            talk.system = text
            talk.reset()
        case "/save", place if place:
            talk.save(Path(place))
        case "/load", place if place:
            talk.load(Path(place))
        case _:
            raise UsageError(word, got=repr(line[:80]), need=HELP)
