"""Messages between ranks: each has a tag that says what its sender does, so who does something else is told apart.

    tag = kind of operation + 16 · (digest of its turn and arguments)

Messages of two ranks do not overtake each other, so another tag in front of the one that is waited for means that its
sender does something else (`DisagreementError`); a rank that does not come is named when time is up
(`RankTimeoutError`). Behind either, and behind an interrupt, nothing goes on.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnc.errors import DisagreementError, RanksError, RankTimeoutError
from nnc.parallel.messages.differences import KINDS, RankOperation, name_of
from nnc.parallel.messages.message_arrays import as_bytes, ranks_text
from nnc.parallel.messages.rank_sums import Array
from nnc.parallel.places import mpi

# A communicator of mpi4py, which is known only where it is installed.
Wire: TypeAlias = Any
# What goes to ranks, or comes from them.
Arrays: TypeAlias = Mapping[int, Array]

TIMEOUT = 300.0
# How long a wait asks again and again before it sleeps in between.
SPINNING_SECONDS, SLEEP_SECONDS = 0.002, 0.0002
# How long a rank that does something else is given to say what.
WORDS_SECONDS, WORDS_BYTES = 0.5, 200


class RankMessages:
    """What this rank sends to others of `size`, and receives from them."""

    def __init__(self, wire: Wire | None = None, name: str = "world", timeout: float = TIMEOUT) -> None:
        self._wire = wire
        self.name = name
        self.timeout = timeout
        self.rank = 0 if wire is None else int(wire.Get_rank())
        self.size = 1 if wire is None else int(wire.Get_size())
        # Tags go to 32,767 everywhere, and further where the library says so.
        most = 32_767 if wire is None else int(wire.Get_attr(mpi().TAG_UB) or 32_767)
        self._digests = most // KINDS
        self._turn = 0
        # What is done now, in words.
        self._doing = "nothing"
        self._one_at_a_time = threading.Lock()
        # After a wait that was broken off: buffers that messages may still be written to, and why nothing goes on.
        self._abandoned: list[object] = []
        self._broken = ""
        # Messages on their way to one rank, which hold their memory, and how many went to each and came from each.
        self._under_way: list[tuple[Any, Array]] = []
        self._handed, self._taken, self._sent, self._received = (Counter[int]() for _ in range(4))
        # How long a wait asks again and again: not at all where somebody computes beside it.
        self.spinning = SPINNING_SECONDS

    def hand_over(self, array: Array, rank: int, label: str) -> None:
        """Send a rank this array, which `take_in` of the same label gives there; we go on before it has come."""
        self._handed[rank] += 1
        tag = self._letter(self._handed[rank], array.shape, array.dtype, label)
        self._post(rank, tag, [np.array(array, order="C")])

    def take_in(self, shape: tuple[int, ...], dtype: np.dtype[Any], rank: int, label: str) -> Array:
        """What a rank hands over by this label."""
        self._taken[rank] += 1
        received = np.empty(shape, dtype)
        self._doing = f"take_in of {dtype}{[*shape]}, {label}"
        self._trade(self._letter(self._taken[rank], shape, dtype, label), {}, {rank: received})
        return received

    def _letter(self, count: int, shape: tuple[int, ...], dtype: object, label: str) -> int:
        """A number that is the same on both ranks: a digest of how many letters went before, and what it is."""
        return self._numbered(RankOperation.HAND_OVER, f"{count} {shape} {dtype} {label}")

    def send_to(self, array: Array, rank: int, tag: int) -> None:
        """Send a rank this array, which `receive_like` gives there: what it is, and then its elements."""
        self._sent[rank] += 1
        words = _line_of(f"{array.dtype} {[*array.shape]} {tag}")
        self._post(rank, self._numbered(RankOperation.SEND, f"{self._sent[rank]}"), [words, np.array(array, order="C")])

    def receive_like(self, like: Array | None, rank: int, tag: int) -> Array:
        """What a rank sends us next. DisagreementError where it has another tag, or is not like what is given."""
        self._received[rank] += 1
        number, words = self._received[rank], np.empty(WORDS_BYTES, np.uint8)
        asked = f"{like.dtype}{[*like.shape]}" if like is not None else "anything"
        self._doing = f"receive of {asked} with tag {tag} from rank {rank} (message {number})"
        letter = self._numbered(RankOperation.SEND, f"{number}")
        self._trade(letter, {}, {rank: words})
        dtype, text = _text_of(words).split(" ", 1)
        shape, _, sent = text[1:].rpartition("] ")
        if sent != str(tag) or (like is not None and asked != f"{dtype}[{shape}]"):
            self.break_off("DisagreementError in receive")
            got = f"{dtype}[{shape}] with tag {sent} from rank {rank}, {self._doing} on rank {self.rank}"
            raise DisagreementError(self.name, got=got, need="the same tag, shape and type on both")
        sizes = tuple(int(size) for size in shape.split(", ") if size)
        received = np.empty(sizes, np.dtype(dtype) if like is None else like.dtype)
        self._trade(letter, {}, {rank: received})
        return received

    def _post(self, rank: int, tag: int, arrays: Sequence[Array]) -> None:
        """Send a rank arrays that nobody else writes, and go on: they are held until they have gone."""
        with self._one_at_a_time:
            self.check_whole()
            self._under_way = [each for each in self._under_way if not each[0].Test()]
            for array in arrays:
                if self._wire is not None and array.size:
                    self._under_way.append((self._wire.Isend(as_bytes(array), rank, tag), array))

    def break_off(self, reason: str) -> None:
        """Refuse to go on from here, for the first reason that there was."""
        self._broken = self._broken or reason

    def check_whole(self) -> None:
        """RanksError behind something that was broken off: ranks have no common place any more."""
        if self._broken:
            fix = "end this launch and begin another from a checkpoint"
            raise RanksError(self.name, got=f"{self._broken}, before", need="ranks in one place", fix=fix)

    def _tag(self, operation: RankOperation, array: Array, *further: object) -> int:
        """A number that is the same on ranks that do the same: operation, and a digest of its turn and arguments."""
        self._turn += 1
        self._doing = f"{operation.name.lower()} of {array.dtype}{[*array.shape]} (operation {self._turn})"
        return self._numbered(operation, f"{self._turn} {array.shape} {array.dtype} {further}")

    def _numbered(self, operation: RankOperation, text: str) -> int:
        digest = int.from_bytes(hashlib.blake2s(text.encode(), digest_size=8).digest(), "little")
        return operation + KINDS * (digest % self._digests)

    def _trade(self, tag: int, sends: Arrays, receives: Arrays) -> None:
        """Send each rank its array, and receive one from each of `receives`; what is our own is copied."""
        self._trade_all(tag, [(sends, receives)])

    def _trade_all(self, tag: int, trades: Sequence[tuple[Arrays, Arrays]]) -> None:
        """Several trades in one trip: messages of a tag come in the order in which they are sent."""
        for sends, receives in trades:
            if self.rank in sends and self.rank in receives and receives[self.rank] is not sends[self.rank]:
                receives[self.rank][...] = sends[self.rank]
        if self._wire is None:
            return
        wire, others = self._wire, range(self.size)
        with self._one_at_a_time:
            self.check_whole()
            requests = [dict[tuple[int, int], Any](), dict[tuple[int, int], Any]()]
            try:
                for place, (sends, receives) in enumerate(trades):
                    for rank in others:
                        if self._far(rank, receives):
                            requests[0][rank, place] = wire.Irecv(as_bytes(receives[rank]), rank, tag)
                    for rank in others:
                        if self._far(rank, sends):
                            requests[1][rank, place] = wire.Isend(as_bytes(sends[rank]), rank, tag)
                for part in requests:
                    self._wait(part, tag)
            except BaseException as error:
                told = f": {error.got}" if isinstance(error, RanksError) else ""
                self.break_off(f"{type(error).__name__} in {name_of(tag)}{told}")
                self._abandoned.append((requests, trades))
                raise

    def _far(self, rank: int, arrays: Mapping[int, Array]) -> bool:
        return rank != self.rank and rank in arrays and arrays[rank].size > 0

    def _wait(self, requests: dict[tuple[int, int], Any], tag: int) -> None:
        """Until all are done; errors name those that are not."""
        began = time.monotonic()
        while True:
            for place in [place for place, request in requests.items() if request.Test()]:
                del requests[place]
            if not requests:
                return
            waited = time.monotonic() - began
            if waited < self.spinning:
                os.sched_yield()
                continue
            self._check_peers(requests, tag)
            if waited > self.timeout:
                self._give_up(requests, tag, waited)
            time.sleep(SLEEP_SECONDS)

    def _check_peers(self, requests: Mapping[tuple[int, int], Any], tag: int) -> None:
        """Messages do not overtake each other: another tag before ours means that the sender does something else.

        What is tested again may have come since, with the next message behind it.
        """
        assert self._wire is not None
        status = mpi().Status()
        for (rank, _), request in requests.items():
            other = self._wire.Iprobe(rank, mpi().ANY_TAG, status) and status.Get_tag() != tag
            if other and not request.Test():
                got = f"{self._doing} on rank {self.rank}, {self._words_of(rank, status.Get_tag())} on rank {rank}"
                need = "the same operations, shapes and types in the same order on every rank"
                raise DisagreementError(self.name, got=got, need=need)

    def _words_of(self, rank: int, tag: int) -> str:
        """What a rank does, in its own words, unless it does not come to say so; all others are told what we do."""
        assert self._wire is not None
        letter, words = self._numbered(RankOperation.WORDS, ""), np.zeros(WORDS_BYTES, np.uint8)
        own = _line_of(self._doing)
        sent = [self._wire.Isend(own, other, letter) for other in range(self.size) if other != self.rank]
        request = self._wire.Irecv(words, rank, letter)
        self._abandoned.append((sent, own, request, words))
        end = time.monotonic() + WORDS_SECONDS
        while not request.Test():
            if time.monotonic() > end:
                return f"another {name_of(tag)}"
            time.sleep(SLEEP_SECONDS)
        return _text_of(words)

    def _give_up(self, requests: Mapping[tuple[int, int], Any], tag: int, waited: float) -> None:
        others = ranks_text(sorted({rank for rank, _ in requests}))
        got = f"rank {self.rank} waiting {waited:.0f} s in {name_of(tag)} for {others}"
        fix = "look for what that rank does, or raise `timeout`"
        raise RankTimeoutError(self.name, got=got, need="every rank to come", fix=fix)


def _line_of(text: str) -> Array:
    """A text as so many bytes as all words have."""
    return np.frombuffer(text.encode()[:WORDS_BYTES].ljust(WORDS_BYTES, b"\0"), np.uint8)


def _text_of(line: Array) -> str:
    return line.tobytes().rstrip(b"\0").decode(errors="replace")
