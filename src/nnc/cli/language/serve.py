"""nnc serve: a language model behind HTTP."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from importlib import import_module
from threading import Timer
from types import FrameType
from typing import Annotated, TypeAlias

import typer

from nnc import language
from nnc.cli.language.model_file import (
    Adapter,
    CacheKind,
    Caching,
    Context,
    DraftOf,
    LanguageFile,
    Limit,
    Prefix,
    Sinks,
    Window,
    opened,
)
from nnc.cli.options import AsJson, BackendName, Threads
from nnc.cli.terminal import complain, write_json
from nnc.core.precautions.replacement import reason_of
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Who may connect: this machine alone unless given.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")]
Waiting = Annotated[int, typer.Option(min=1, max=10_000, help="Requests that may wait; further ones are refused.")]

Slots = Annotated[
    int, typer.Option(min=1, max=256, help="Requests answered side by side, each with caches of its own.")
]

Handle: TypeAlias = Callable[[int, FrameType | None], None]

# Seconds for answers that have begun when the server is asked to end, and connections that may wait.
GRACE, BACKLOG = 5, 2048


def serve(
    model: LanguageFile,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    waiting: Waiting = 64,
    slots: Slots = 1,
    context: Context = 0,
    cache: CacheKind = "f32",
    window: Window = 0,
    sinks: Sinks = 0,
    prefix: Prefix = 0,
    draft: DraftOf = None,
    limit: Limit = None,
    adapter: Adapter = None,
    backend: BackendName = "",
    threads: Threads = None,
    json: AsJson = False,
) -> int:
    """Answer OpenAI's /v1/chat/completions, /v1/completions and /v1/embeddings; at / is a page of a chat.

    nnc serve model.gguf --port 8080 --context 2048
    nnc serve model.gguf --slots 8 --context 4096 --prefix 1024     # a system prompt of that length, stored once
    """
    if threads is not None:
        SETTINGS.threads = threads
    caching = Caching(cache, window, sinks, prefix)
    held = opened(model, context, limit, backend, adapter=adapter, caching=caching, draft=draft, slots=slots)
    try:
        app, server = (
            language.application(held, model.stem or str(model), waiting=waiting, slots=slots, prefix=prefix),
            import_module("uvicorn"),
        )
    except ImportError as error:
        fix = "pip install 'nnc[language,serve]'"
        raise UsageError("serve", got=str(error), need="the extra serve", fix=fix) from None
    with _listener(host, port) as held_port:
        url = f"http://{f'[{host}]' if ':' in host else host}:{held_port.getsockname()[1]}/v1"
        if json:
            write_json({"model": model.stem, "url": url})
            sys.stdout.flush()
        else:
            complain(f"{model.name} at {url}")
        # `uvicorn.run` would end with 0 behind Ctrl-C, as if it had been done.
        settings = server.Config(app, log_level="warning", timeout_graceful_shutdown=2 * GRACE)
        running = server.Server(settings)
        running.handle_exit = _ending(running.handle_exit, app.state.end)
        running.run(sockets=[held_port])
    return 0


def _ending(handle: Handle, end: Callable[[], None]) -> Handle:
    """What a signal does: `handle` lets answers go on, and those that do behind `GRACE` are told that the server ends.

    uvicorn cancels them instead, which cuts their connections and is a trace of Python in its log.
    """

    def ended(number: int, frame: FrameType | None) -> None:
        timer = Timer(GRACE, end)
        timer.daemon = True
        timer.start()
        handle(number, frame)

    return ended


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens there; UsageError where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = reason_of(error).partition(" (while")[0]
        got, need = f"{host} port {port}, {reason}", "an address of this machine and a free port"
        raise UsageError("serve", got=got, need=need, fix="--port 0 for any that is free") from None
