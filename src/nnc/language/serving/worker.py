"""Threads answer requests in their order, each in a row of shared caches. So many may wait; further ones are refused.

An answer that nobody reads any more is given up behind its next token.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.errors import NncError, NotFiniteError, UsageError
from nnc.language.kept_tokens import KeptTokens
from nnc.language.language_model import USUAL_LENGTH, LanguageModel
from nnc.language.serving.kept_rows import KeptRows
from nnc.language.serving.requests import GenerationRequest
from nnc.language.serving.waiting_line import BusyError, WaitingLine
from nnc.language.shared_steps import SharedSteps
from nnc.language.text_stream import TextStream
from nnc.language.token_shares import TokenShare
from nnc.nn.inference.next_token import TokenChoice


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text that is whole, and how likely the tokens were that came since the last one, where that is asked for."""

    text: str
    shares: tuple[TokenShare, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """Why an answer ended, how many tokens were read and written, and shares that no piece has told."""

    reason: str
    read: int
    written: int
    shares: tuple[TokenShare, ...] = ()


# Seconds that a server that ends waits for its threads: a step of a large model, but not a prompt nor a compilation.
LAST_SECONDS = 5.0

Part: TypeAlias = TextPart | Finish
Answer: TypeAlias = Part | BaseException


class EndingError(UsageError):
    """The server ends before the answer does."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that waits or is answered: pieces go out by `send`, and behind them the finish, or what went wrong."""

    request: GenerationRequest
    send: Callable[[Answer], None]
    given_up: threading.Event = field(default_factory=threading.Event)
    came: float = field(default_factory=time.perf_counter)


@dataclass(slots=True)
class Counts:
    """What happened since the start; times in seconds."""

    answered: int = 0
    refused: int = 0
    given_up: int = 0
    failed: int = 0
    pieces: int = 0
    read: int = 0
    written: int = 0
    waited: float = 0.0
    seconds: float = 0.0


def _ending() -> EndingError:
    return EndingError("serve", got="a server that ends", need="one that runs")


class AnsweringWorker:
    """The threads of one model, which answer so many requests side by side."""

    def __init__(self, model: LanguageModel, most_waiting: int, slots: int = 1, prefix: int = 0) -> None:
        self._model, self.counts, self.slots = model, Counts(), slots
        self._line = WaitingLine[Ticket](most_waiting)
        self._current: dict[int, Ticket] = {}
        self._counting = threading.Lock()
        self._shared = SharedSteps(model.tokens, slots, model.context, prefix) if slots > 1 else None
        self._rows = KeptRows([KeptTokens(model.tokens, model.context, self._shared, row) for row in range(slots)])
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"nnc-serve-{number}", daemon=True)
            for number in range(slots)
        ]

    def start(self) -> None:
        """Begin to answer."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Tell all who wait for an answer, or for the rest of one, that the server ends; their threads follow."""
        for ticket in self._line.end():
            ticket.send(_ending())
        for current in tuple(self._current.values()):
            current.given_up.set()
            # Its thread may read a prompt, or compile, for a minute yet.
            current.send(_ending())

    def stop(self) -> None:
        """Give up what is answered and what waits, and end the threads; one that does not is left to the process."""
        self.end()
        last = time.monotonic() + LAST_SECONDS
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=max(last - time.monotonic(), 0.0))

    @property
    def answering(self) -> int:
        """Requests that are answered now."""
        return len(self._current)

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._line)

    @property
    def reused(self) -> int:
        """Tokens of prompts that were not read because they had been read before."""
        return self._rows.reused

    async def parts(self, requests: Sequence[GenerationRequest]) -> AsyncGenerator[tuple[int, Part], None]:
        """Pieces of all answers as they come, each with the place of its request, and behind them their finishes.

        BusyError where they would wait and may not. Left early, the answers are given up.
        """
        loop, parts = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Answer]]()

        def sender(place: int) -> Callable[[Answer], None]:
            def send(part: Answer) -> None:
                # The loop may be gone when a server ends.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(parts.put_nowait, (place, part))

            return send

        tickets = [Ticket(request, sender(place)) for place, request in enumerate(requests)]
        self._enter(tickets)
        going = len(tickets)
        try:
            while going:
                place, part = await parts.get()
                if isinstance(part, BaseException):
                    raise part
                going -= isinstance(part, Finish)
                yield place, part
        finally:
            self._give_up(tickets)

    def _enter(self, tickets: Sequence[Ticket]) -> None:
        if self._line.ended:
            raise _ending()
        try:
            self._line.put(tickets)
        except BusyError:
            self._count(refused=len(tickets))
            raise

    def _give_up(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            ticket.given_up.set()
            if self._line.remove(ticket):
                self._count(given_up=1)

    def _work(self, number: int) -> None:
        while (ticket := self._line.take()) is not None:
            self._current[number] = ticket
            # One that came between the end of the line and here is not among those that the end gives up.
            if self._line.ended:
                ticket.given_up.set()
                ticket.send(_ending())
            self._count(waited=time.perf_counter() - ticket.came)
            last = self._answer(ticket)
            del self._current[number]
            # Whoever has the last word finds the row free.
            ticket.send(last)

    def _answer(self, ticket: Ticket) -> Answer:
        """Send pieces as they come; what is to be sent behind them is the result."""
        began = time.perf_counter()
        try:
            return self._written(ticket)
        except Exception as error:  # one request must not end the thread for all
            self._count(failed=1)
            return error
        finally:
            self._count(seconds=time.perf_counter() - began)

    def _written(self, ticket: Ticket) -> Answer:
        asked = ticket.request
        tokens = self._model.tokens_of(asked.prompt if isinstance(asked.prompt, str) else list(asked.prompt))
        length = asked.length or max(min(USUAL_LENGTH, self._model.context - len(tokens)), 1)
        # Before it is in line for room that no row has.
        tokens = self._model.fitting(tokens, length)
        row, kept = self._rows.take(tokens, len(tokens) + length)
        whole = False
        try:
            stream, told = self._stream(asked, tokens, length, kept), 0
            for text in stream:
                self._count(pieces=1)
                if ticket.given_up.is_set():
                    self._count(given_up=1)
                    whole = True
                    return _ending()
                ticket.send(TextPart(text, tuple(stream.shares[told:])))
                told = len(stream.shares)
            whole = True
            self._count(answered=1, read=stream.read, written=stream.written)
            return Finish(stream.reason, stream.read, stream.written, tuple(stream.shares[told:]))
        except NncError as error:
            # What is refused before anything is read leaves what is kept as it was.
            whole = not isinstance(error, NotFiniteError)
            raise
        finally:
            kept.leave()
            self._rows.give_back(row, whole=whole)

    def _count(self, **more: float) -> None:
        with self._counting:
            for name, value in more.items():
                setattr(self.counts, name, getattr(self.counts, name) + value)

    def _stream(self, asked: GenerationRequest, tokens: list[int], length: int, kept: KeptTokens) -> TextStream:
        choice = TokenChoice(asked.temperature, asked.top_k, asked.top_p, asked.seed, asked.min_p)
        picker = self._model.constrained(choice, asked.form)
        return self._model.continued(tokens, length, picker, stop=asked.stop, logprobs=asked.likely, kept=kept)
