"""Routes: /v1/completions and /v1/chat/completions (whole or streamed), /v1/models, /health, /metrics.

400  a request that cannot be answered: the error names what it got and needs
413  a body of more than a megabyte
429  as many requests wait as may
503  the server ends
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from nnc.arguments import Count, checked
from nnc.errors import DataError, NncError
from nnc.language.language_model import LanguageModel
from nnc.language.serving.requests import parsed
from nnc.language.serving.worker import AnsweringWorker, BusyError, EndingError, Finish

MOST_BODY = 1 << 20
Part: TypeAlias = str | Finish
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


@checked
def application(model: LanguageModel, name: str, *, waiting: Count = 64, slots: Count = 1) -> Starlette:
    """The ASGI application of a model under this name; at most so many requests wait for it.

    `slots` are answered side by side, each in a row of caches for the whole context.
    """
    worker = AnsweringWorker(model, waiting, slots)
    began, numbers = int(time.time()), itertools.count(1)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        try:
            yield
        finally:
            worker.stop()

    def answering(*, chat: bool) -> Handler:
        async def handle(request: Request) -> Response:
            answers = Answers(worker, name, f"nnc-{next(numbers)}", chat=chat)
            return await answers.respond(request)

        return handle

    async def models(request: Request) -> Response:
        entry = {"id": name, "object": "model", "created": began, "owned_by": "nnc"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": worker.waiting})

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(_metrics(worker))

    routes = [
        Route("/v1/completions", answering(chat=False), methods=["POST"]),
        Route("/v1/chat/completions", answering(chat=True), methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
    return Starlette(routes=routes, lifespan=running)


def _metrics(worker: AnsweringWorker) -> str:
    """Counts since the start and numbers of this moment, a line each."""
    counts = worker.counts
    rows = {name: getattr(counts, name) for name in ("answered", "refused", "given_up", "failed", "pieces")}
    lines = [f"nnc_{name}_total {value}" for name, value in rows.items()]
    lines += [f"nnc_answering_seconds_total {counts.seconds:.3f}", f"nnc_waiting {worker.waiting}"]
    lines += [f"nnc_answering {worker.answering}", f"nnc_slots {worker.slots}"]
    return "\n".join(lines) + "\n"


class Answers:
    """The answer to one request, whole or in events."""

    def __init__(self, worker: AnsweringWorker, name: str, number: str, *, chat: bool) -> None:
        self._worker, self._name, self._number, self._chat = worker, name, number, chat
        self._created = int(time.time())

    async def respond(self, request: Request) -> Response:
        """Whatever the request is, an answer or an error as JSON."""
        try:
            asked = parsed(await _body(request), chat=self._chat)
            pieces = self._worker.pieces(asked)
            if asked.stream:
                # The first piece says whether there will be an answer, before the status is sent.
                first = await anext(pieces)
                return StreamingResponse(self._events(first, pieces), media_type="text/event-stream")
            return JSONResponse(self._whole(*await _joined(request, pieces)))
        except BusyError as error:
            return _refused(429, str(error))
        except EndingError as error:
            return _refused(503, str(error))
        except _TooLargeError as error:
            return _refused(413, str(error))
        except NncError as error:
            return _refused(400, str(error))

    def _whole(self, text: str, finish: Finish) -> dict[str, object]:
        part = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        usage = {
            "prompt_tokens": finish.read,
            "completion_tokens": finish.written,
            "total_tokens": finish.read + finish.written,
        }
        return {**self._framed([{"index": 0, "finish_reason": finish.reason, **part}], streamed=False), "usage": usage}

    def _framed(self, choices: list[dict[str, object]], *, streamed: bool) -> dict[str, object]:
        kind = ("chat.completion.chunk" if streamed else "chat.completion") if self._chat else "text_completion"
        return {
            "id": self._number,
            "object": kind,
            "created": self._created,
            "model": self._name,
            "choices": choices,
        }

    async def _events(self, first: Part, pieces: AsyncGenerator[Part, None]) -> AsyncIterator[str]:
        """Server-sent events; where the client goes, Starlette closes this, and the answer is given up."""
        async with aclosing(pieces):
            yield self._event(first)
            try:
                async for piece in pieces:
                    yield self._event(piece)
            except NncError as error:
                yield f"data: {json.dumps(_error(str(error)))}\n\n"
            yield "data: [DONE]\n\n"

    def _event(self, piece: Part) -> str:
        finish = piece.reason if isinstance(piece, Finish) else None
        text = "" if isinstance(piece, Finish) else piece
        part: dict[str, object] = {"text": text}
        if self._chat:
            part = {"delta": {"content": text} if text else {}}
        choice = {"index": 0, "finish_reason": finish, **part}
        return f"data: {json.dumps(self._framed([choice], streamed=True), ensure_ascii=False)}\n\n"


class _TooLargeError(DataError):
    """A body that is larger than any prompt."""


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise _TooLargeError("request", got=f"more than {MOST_BODY:,} bytes", need="less")
    return bytes(body)


async def _joined(request: Request, pieces: AsyncGenerator[Part, None]) -> tuple[str, Finish]:
    """The whole text; given up where the client is gone."""
    written, finish = [], Finish("stop", 0, 0)
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Finish):
                finish = piece
            else:
                written.append(piece)
            if await request.is_disconnected():
                break
    return "".join(written), finish


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse(_error(message), status_code=status, headers={"Retry-After": "1"} if status == 429 else None)


def _error(message: str) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error"}}
