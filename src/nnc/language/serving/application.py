"""Routes of OpenAI's interface for one model, a page to talk with it, and how it is.

/v1/completions  /v1/chat/completions  whole, or streamed as events
/v1/embeddings   vectors of texts
/v1/models       /health  /metrics     what is served, and counts in the form of Prometheus
/                a page of a chat

Errors are objects with an `error`: 400 names the field that cannot be answered, 404 and 405 a route that is not there,
413 a body of more than a megabyte, 429 says that as many requests wait as may, 500 that our code failed, 503 that the
server ends.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from anyio import to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from nnc.arguments import Count, Size, checked
from nnc.errors import NncError
from nnc.language.language_model import LanguageModel
from nnc.language.serving.fields import RequestError
from nnc.language.serving.replies import ReplyForm, Written, error_of, vectors_reply
from nnc.language.serving.requests import AskedAnswers, parsed, parsed_texts
from nnc.language.serving.server_counts import metrics_of
from nnc.language.serving.waiting_line import BusyError
from nnc.language.serving.worker import AnsweringWorker, EndingError, Finish, Part
from nnc.language.text_vectors import TextVectors

MOST_BODY = 1 << 20
# What a client would see that has left before its answer: nobody does.
LEFT = 499
PAGE = Path(__file__).with_name("chat_page.html")
# The page runs its own script and asks its own server alone.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
Parts: TypeAlias = AsyncGenerator[tuple[int, Part], None]
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
R = TypeVar("R")


@checked
def application(
    model: LanguageModel, name: str, *, waiting: Count = 64, slots: Count = 1, prefix: Size = 0
) -> Starlette:
    """The ASGI application of a model under this name; at most so many requests wait for it.

    `slots` are answered side by side, each with room for the whole context. What a request begins with that an earlier
    one began with too is not read again, and lies in memory once, in pages of 256 tokens. With a `prefix` there is room
    for the pages of so many tokens once instead of in each slot: a request without it may have to wait for others.
    """
    service = ModelService(model, name, waiting, slots, prefix)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        service.worker.start()
        try:
            yield
        finally:
            await run_in_threadpool(service.worker.stop)

    app = Starlette(routes=service.routes(), lifespan=running, exception_handlers={HTTPException: _no_route})
    # For whoever runs it: those who wait are told at once, not when their connections are cut.
    app.state.end = service.worker.end
    return app


class ModelService:
    """The handlers of a model's routes."""

    def __init__(self, model: LanguageModel, name: str, waiting: int, slots: int, prefix: int) -> None:
        self.worker = AnsweringWorker(model, waiting, slots, prefix)
        self._model, self._name = model, name
        self._began, self._numbers = int(time.time()), itertools.count(1)
        self._vectors: TextVectors | None = None
        self._reading = Lock()

    def routes(self) -> list[Route]:
        """All there are."""
        return [
            Route("/", self._page),
            Route("/v1/completions", _replying(self._completion), methods=["POST"]),
            Route("/v1/chat/completions", _replying(self._chat), methods=["POST"]),
            Route("/v1/embeddings", _replying(self._embeddings), methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
        ]

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"), headers=PAGE_HEADERS)

    async def _models(self, request: Request) -> Response:
        entry = {"id": self._name, "object": "model", "created": self._began, "owned_by": "nnc"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": self.worker.waiting})

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(metrics_of(self.worker), media_type="text/plain; version=0.0.4")

    async def _completion(self, request: Request) -> Response:
        return await self._answered(request, chat=False)

    async def _chat(self, request: Request) -> Response:
        return await self._answered(request, chat=True)

    async def _answered(self, request: Request, *, chat: bool) -> Response:
        body = await _body(request)
        # On a thread, as grammars of a client's take their time.
        asked = await run_in_threadpool(lambda: parsed(body, chat=chat))
        likely = asked.answers[0].likely is not None
        number = f"nnc-{next(self._numbers)}"
        form = ReplyForm(self._model.tokenizer, self._name, number, chat=chat, likely=likely)
        parts = self.worker.parts(asked.answers)
        if not asked.stream:
            answers = await _unless_left(request, _joined(parts, len(asked.answers)))
            return _left() if answers is None else JSONResponse(form.whole(answers, asked.prompts))
        # The first piece says whether there will be an answer, before the status is sent.
        first = await _unless_left(request, anext(parts))
        if first is None:
            await parts.aclose()
            return _left()
        events = _events(form, asked, first, parts, opened=chat)
        return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def _embeddings(self, request: Request) -> Response:
        asked = parsed_texts(await _body(request))
        # A server that ends does not wait for them.
        vectors, tokens = await to_thread.run_sync(lambda: self._read(asked.texts), abandon_on_cancel=True)
        return JSONResponse(vectors_reply(vectors, self._name, tokens, encoded=asked.encoded))

    def _read(self, texts: tuple[str, ...]) -> tuple[Any, int]:
        """Vectors of texts, one request at a time; the program is made for the first."""
        with self._reading:
            if self._vectors is None:
                self._vectors = self._model.vectors()
            rows = self._vectors.tokens(texts)
            return self._vectors.of(rows), sum(map(len, rows))


def _replying(handle: Handler) -> Handler:
    """Whatever the request is, an answer or an error as JSON."""

    async def reply(request: Request) -> Response:
        try:
            return await handle(request)
        except BusyError as error:
            return _refused(429, str(error), headers={"Retry-After": "1"})
        except (EndingError, asyncio.CancelledError) as error:
            return _refused(503, str(error) or "the server ends")
        except _TooLargeError as error:
            return _refused(413, str(error))
        except RequestError as error:
            return _refused(400, str(error), error.field)
        except NncError as error:
            return _refused(400, str(error))
        except Exception as error:  # our own bug, which ends this answer alone
            return _refused(500, f"{type(error).__name__}: {error}"[:300])

    return reply


async def _events(
    form: ReplyForm, asked: AskedAnswers, first: tuple[int, Part], parts: Parts, *, opened: bool
) -> AsyncIterator[str]:
    """Server-sent events; where the client goes, Starlette closes this, and the answers are given up."""
    finishes = dict[int, Finish]()
    async with aclosing(parts):
        for place in range(len(asked.answers) if opened else 0):
            yield form.opening(place)
        try:
            async for place, part in _with_first(first, parts):
                if isinstance(part, Finish):
                    finishes[place] = part
                yield form.event(place, part)
            if asked.counted:
                yield form.counted([finishes[place] for place in sorted(finishes)], asked.prompts)
        except NncError as error:
            yield form.failed(str(error))
        yield "data: [DONE]\n\n"


async def _with_first(first: tuple[int, Part], parts: Parts) -> AsyncIterator[tuple[int, Part]]:
    yield first
    async for part in parts:
        yield part


class _TooLargeError(RequestError):
    """A body that is larger than any prompt."""


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise _TooLargeError("body", got=f"more than {MOST_BODY:,} bytes", need="less")
    return bytes(body)


async def _joined(parts: Parts, count: int) -> list[Written]:
    """All answers, whole."""
    answers = [Written() for _ in range(count)]
    async with aclosing(parts):
        async for place, part in parts:
            answers[place].add(part)
    return answers


async def _unless_left(request: Request, work: Awaitable[R]) -> R | None:
    """What `work` gives; it is cancelled, and None, where the client leaves before."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def _left() -> Response:
    return Response(status_code=LEFT)


def _refused(
    status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(error_of(status, message, field), status_code=status, headers=headers)


async def _no_route(request: Request, error: Exception) -> Response:
    """A route, or a method, that is not there."""
    assert isinstance(error, HTTPException), "it is the handler of these"
    message = f"{request.method} {request.url.path[:200]} is not served"
    return _refused(error.status_code, message, headers=error.headers)
