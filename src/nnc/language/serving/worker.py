"""Threads answer requests in their order, each in a row of shared caches. So many may wait; further ones are refused.

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
from nnc.errors import UsageError
from nnc.language.kept_tokens import KeptTokens
from nnc.language.language_model import LanguageModel
from nnc.language.serving.requests import GenerationRequest
from nnc.language.shared_steps import SharedSteps
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


def _ending() -> EndingError:
    return EndingError("serve", got="a server that ends", need="one that runs")


class AnsweringWorker:
    """The threads of one model, which answer so many requests side by side."""

    def __init__(self, model: LanguageModel, most_waiting: int, slots: int = 1) -> None:
        self._model, self.counts, self.slots = model, Counts(), slots
        self._waiting: queue.Queue[Ticket | None] = queue.Queue(most_waiting)
        self._current: dict[int, Ticket] = {}
        self._ended, self._counting = False, threading.Lock()
        self._shared = SharedSteps(model.tokens, slots, model.context) if slots > 1 else None
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"nnc-serve-{slot}", daemon=True)
            for slot in range(slots)
        ]

    def start(self) -> None:
        """Begin to answer."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Give up what is answered and what waits, and end the threads."""
        self._ended = True
        for current in tuple(self._current.values()):
            current.given_up.set()
        # Whoever waits is woken by the first word, and hands it on; where there is no room for it nobody waits.
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        for thread in self._threads:
            thread.join(timeout=60)
        with suppress(queue.Empty):
            while True:
                self._refuse(self._waiting.get_nowait())

    @property
    def answering(self) -> int:
        """Requests that are answered now."""
        return len(self._current)

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
        if self._ended:
            raise _ending()
        try:
            self._waiting.put_nowait(ticket)
        except queue.Full:
            self._count(refused=1)
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

    def _work(self, slot: int) -> None:
        while True:
            ticket = self._waiting.get()
            if ticket is None or self._ended:
                self._refuse(ticket)
                with suppress(queue.Full):
                    self._waiting.put_nowait(None)
                return
            self._current[slot] = ticket
            last = None if ticket.given_up.is_set() else self._answer(ticket, slot)
            del self._current[slot]
            # Whoever has the last word finds the slot free.
            if last is not None:
                ticket.send(last)

    @staticmethod
    def _refuse(ticket: Ticket | None) -> None:
        """Tell who waits that the server ends."""
        if ticket is not None:
            ticket.send(_ending())

    def _answer(self, ticket: Ticket, slot: int) -> Answer:
        """Send pieces as they come; what is to be sent behind them is the result."""
        began = time.perf_counter()
        kept = KeptTokens(self._model.tokens, self._model.context, self._shared, slot)
        try:
            stream = self._stream(ticket.request, kept)
            for piece in stream:
                self._count(pieces=1)
                if ticket.given_up.is_set():
                    self._count(given_up=1)
                    return _ending()
                ticket.send(piece)
            self._count(answered=1)
            return Finish(stream.reason, stream.read, stream.written)
        except Exception as error:  # one request must not end the thread for all
            self._count(failed=1)
            return error
        finally:
            kept.leave()
            self._count(seconds=time.perf_counter() - began)

    def _count(self, **more: float) -> None:
        with self._counting:
            for name, value in more.items():
                setattr(self.counts, name, getattr(self.counts, name) + value)

    def _stream(self, asked: GenerationRequest, kept: KeptTokens) -> TextStream:
        prompt = asked.prompt if isinstance(asked.prompt, str) else list(asked.prompt)
        return self._model.stream(
            prompt, asked.length, temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p,
            min_p=asked.min_p, stop=asked.stop, seed=asked.seed, kept=kept,
        )  # fmt: skip
