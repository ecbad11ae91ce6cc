"""One thread answers requests in their order. So many may wait; further ones are refused at once.

An answer that nobody reads any more is given up behind its next token.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import field

from nnc.classes import dataclass
from nnc.errors import NncError, UsageError
from nnc.language.language_model import LanguageModel
from nnc.language.serving.requests import GenerationRequest
from nnc.language.text_stream import TextStream


@dataclass(frozen=True, slots=True)
class Finish:
    """Why an answer ended, and how many tokens were read and written."""

    reason: str
    read: int
    written: int


Answer = str | BaseException | Finish


class BusyError(UsageError):
    """As many requests wait as may."""


class EndingError(UsageError):
    """The server ends before the answer does."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that waits or is answered: pieces go out by `send`, and behind them the finish, or what went wrong."""

    request: GenerationRequest
    send: Callable[[Answer], None]
    given_up: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Counts:
    """What happened since the start."""

    answered: int = 0
    refused: int = 0
    given_up: int = 0
    failed: int = 0
    pieces: int = 0
    seconds: float = 0.0


class AnsweringWorker:
    """The thread of one model; a context manager that ends it."""

    def __init__(self, model: LanguageModel, most_waiting: int) -> None:
        self._model, self.counts = model, Counts()
        self._waiting: queue.Queue[Ticket | None] = queue.Queue(most_waiting)
        self._current: Ticket | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="nnc-serve", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Give up what is answered and what waits, and end the thread."""
        self._ended = True
        current = self._current
        if current is not None:
            current.given_up.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(timeout=60)

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._waiting.qsize()

    async def pieces(self, request: GenerationRequest) -> AsyncGenerator[str | Finish, None]:
        """The text as it comes, and its finish; BusyError where too many wait. Left early, the answer is given up."""
        loop, parts = asyncio.get_running_loop(), asyncio.Queue[Answer]()

        def send(part: Answer) -> None:
            # The loop may be gone when a server ends.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(parts.put_nowait, part)

        ticket = Ticket(request, send)
        try:
            self._waiting.put_nowait(ticket)
        except queue.Full:
            self.counts.refused += 1
            need = f"less than {self._waiting.maxsize}"
            got = f"{self.waiting} requests that wait"
            raise BusyError("serve", got=got, need=need, fix="try again soon") from None
        try:
            while True:
                part = await parts.get()
                if isinstance(part, BaseException):
                    raise part
                yield part
                if isinstance(part, Finish):
                    return
        finally:
            ticket.given_up.set()

    def _work(self) -> None:
        while not self._ended:
            ticket = self._waiting.get()
            if ticket is None:
                break
            self._current = ticket
            if not ticket.given_up.is_set():
                self._answer(ticket)
            self._current = None
        while not self._waiting.empty():
            left = self._waiting.get_nowait()
            if left is not None:
                left.send(EndingError("serve", got="a server that ends", need="one that runs"))

    def _answer(self, ticket: Ticket) -> None:
        began = time.perf_counter()
        try:
            stream = self._stream(ticket.request)
            for piece in stream:
                self.counts.pieces += 1
                if ticket.given_up.is_set():
                    self.counts.given_up += 1
                    ticket.send(EndingError("serve", got="a server that ends", need="one that runs"))
                    return
                ticket.send(piece)
            self.counts.answered += 1
            ticket.send(Finish(stream.reason, stream.read, stream.written))
        except NncError as error:
            self.counts.failed += 1
            ticket.send(error)
        except Exception as error:  # one request must not end the thread for all
            self.counts.failed += 1
            ticket.send(error)
        finally:
            self.counts.seconds += time.perf_counter() - began

    def _stream(self, asked: GenerationRequest) -> TextStream:
        prompt = asked.prompt if isinstance(asked.prompt, str) else list(asked.prompt)
        return self._model.stream(
            prompt, asked.length, temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p,
            min_p=asked.min_p, stop=asked.stop, seed=asked.seed,
        )  # fmt: skip
