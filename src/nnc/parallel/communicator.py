"""Ranks that talk to each other: sums, gathers and exchanges of arrays between the processes of one launch.

    ranks = nnc.parallel.world()
    ranks.rank, ranks.size
    ranks.allreduce(array)                  the sum over all ranks, on each

Every rank calls the same operations in the same order. A sum is taken in the order of ranks, chunk by chunk, so its
bits depend on the number of ranks alone and are the same on each. One process that nobody launched is a world of one:
everything there is a copy.

Who is alone in an operation is told so: ranks that call something else, or arrays of another shape or type, are named
at once (`DisagreementError`), ranks that do not come after `timeout` seconds (`RankTimeoutError`). After either the
ranks have no common place any more, and the launch should end.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import checked
from nnc.errors import ArgumentError, DisagreementError, ShapeError, UsageError
from nnc.parallel.messages.differences import RankOperation, first_difference
from nnc.parallel.messages.message_arrays import in_order, ranks_text, trips
from nnc.parallel.messages.rank_messages import RankMessages
from nnc.parallel.messages.rank_sums import Array, Reduction, reduced
from nnc.parallel.places import alone_beside, mpi, rank_in

# Up to here everybody sends everything to everybody: one trip instead of two (2 ranks on Zen 4: 31 against 52 us).
WHOLE_BYTES = 16 << 10
# What is longer is summed in parts of so many bytes: what ranks receive before they add takes no more memory than this.
PART_BYTES = 4 << 20


class Communicator(RankMessages):
    """`size` processes, of which this one is `rank`.

    A group is named for messages; `timeout` is how many seconds an operation waits for others.
    """

    def __repr__(self) -> str:
        return f"Communicator({self.name}: rank {self.rank} of {self.size})"

    def __copy__(self) -> Communicator:
        return self  # copies would count messages apart, and wait for each other's

    def __deepcopy__(self, memo: dict[int, object]) -> Communicator:
        return self

    def __reduce__(self) -> str:
        fix = "ask for nnc.parallel.world() there"
        raise UsageError("pickle", got=repr(self), need="what another process can have", fix=fix)

    def split(self, color: int, name: str) -> Communicator:
        """The ranks that give the same `color`, in the order that they have here; every rank calls it."""
        wire = None if self._wire is None else self._wire.Split(color, self.rank)
        return Communicator(wire, name, self.timeout)

    @checked
    def allreduce(self, array: ArrayLike, operation: Reduction = "sum") -> Array:
        """y = x₀ + x₁ + …, in this order (or their mean, largest, smallest elements), on every rank."""
        result = np.array(in_order(array))
        self.allreduce_into(result, operation)
        return result

    def allreduce_into(self, array: Array, operation: Reduction = "sum") -> None:
        """`allreduce` in the memory of an array whose elements lie one behind the other."""
        self.allreduce_all_into([array], operation)

    def allreduce_all_into(self, arrays: Sequence[Array], operation: Reduction = "sum") -> None:
        """`allreduce_into` of several arrays, in few trips; bits are those of each alone."""
        kinds = {array.dtype for array in arrays if array.dtype.kind in "iub"}
        if operation == "mean" and kinds:
            raise ArgumentError(
                "allreduce", got=f"the mean of {min(map(str, kinds))}", need="floats", fix="sum, or cast before"
            )
        if self.size == 1:
            return
        for parts in trips(arrays, PART_BYTES):
            self._reduce_parts(parts, operation)

    def _reduce_parts(self, flats: Sequence[Array], operation: Reduction) -> None:
        tag = self._tag(RankOperation.ALLREDUCE, flats[0], operation, *[(flat.size, flat.dtype) for flat in flats[1:]])
        short = [flat for flat in flats if flat.nbytes <= WHOLE_BYTES]
        long = [(flat, self._chunks(flat)) for flat in flats if flat.nbytes > WHOLE_BYTES]
        came = [(flat, np.empty((self.size, flat.size), flat.dtype)) for flat in short]
        trades = [(dict.fromkeys(range(self.size), flat), dict(enumerate(parts))) for flat, parts in came]
        for flat, chunks in long:
            own = chunks[self.rank]
            came.append((own, np.empty((self.size, own.size), flat.dtype)))
            trades.append((dict(enumerate(chunks)), dict(enumerate(came[-1][1]))))
        self._trade_all(tag, trades)
        for own, parts in came:
            own[...] = reduced(parts, operation)
        if long:
            sums = [(dict.fromkeys(range(self.size), chunks[self.rank]), dict(enumerate(chunks))) for _, chunks in long]
            self._trade_all(tag, sums)

    @checked
    def reduce_scatter(self, array: ArrayLike, operation: Reduction = "sum") -> Array:
        """Block `rank` of the sum of x[size · n, …]: y[n, …]."""
        array = in_order(array)
        blocks = self._blocks("reduce_scatter", array)
        if self.size == 1:
            return np.array(blocks[0])
        tag = self._tag(RankOperation.REDUCE_SCATTER, array, operation)
        parts = np.empty(blocks.shape, blocks.dtype)
        self._trade(tag, dict(enumerate(blocks)), dict(enumerate(parts)))
        return reduced(parts, operation)

    @checked
    def all_gather(self, array: ArrayLike) -> Array:
        """x of all ranks one behind the other: y[size · n, …] of x[n, …]."""
        array = in_order(array)
        if not array.ndim:
            raise ShapeError("all_gather", got="a scalar", need="an axis to join", fix="reshape it to (1,)")
        gathered = np.empty((self.size, *array.shape), array.dtype)
        tag = self._tag(RankOperation.ALL_GATHER, array)
        self._trade(tag, dict.fromkeys(range(self.size), array), dict(enumerate(gathered)))
        return gathered.reshape(self.size * array.shape[0], *array.shape[1:])

    def sum_pieces(self, whole: Array, own: Array) -> None:
        """own = piece `rank` of the sum over all ranks of whole[elements], in pieces as long as `own`, zeros behind."""
        length, most = own.size, max(PART_BYTES // (whole.itemsize * self.size), 1)
        own[...] = 0
        for begin in range(0, length, most):
            bounds = [(rank * length + begin, rank * length + min(begin + most, length)) for rank in range(self.size)]
            pieces = [whole[first:last] for first, last in bounds]
            mine = pieces[self.rank].size
            parts = np.empty((self.size, mine), whole.dtype)
            tag = self._tag(RankOperation.REDUCE_SCATTER, whole, begin)
            self._trade(tag, dict(enumerate(pieces)), dict(enumerate(parts)))
            own[begin : begin + mine] = reduced(parts, "sum")

    def gather_pieces(self, own: Array, whole: Array) -> None:
        """whole[elements] = the pieces of all ranks, one behind the other: all as long as `own`, the last ones cut."""
        pieces = [whole[rank * own.size : (rank + 1) * own.size] for rank in range(self.size)]
        mine = own[: pieces[self.rank].size]
        tag = self._tag(RankOperation.ALL_GATHER, whole)
        self._trade(tag, dict.fromkeys(range(self.size), mine), dict(enumerate(pieces)))

    @checked
    def all_to_all(self, array: ArrayLike) -> Array:
        """Block j of x[size · n, …] goes to rank j, whose block i came from rank i."""
        array = in_order(array)
        blocks = self._blocks("all_to_all", array)
        received = np.empty(blocks.shape, blocks.dtype)
        tag = self._tag(RankOperation.ALL_TO_ALL, array)
        self._trade(tag, dict(enumerate(blocks)), dict(enumerate(received)))
        return received.reshape(array.shape)

    @checked
    def broadcast(self, array: ArrayLike, root: int = 0) -> Array:
        """x of rank `root`, on every rank; the others give an array of the same shape and type."""
        self._check_rank("broadcast", root)
        result = np.array(in_order(array))
        if self.size == 1 or not result.size:
            return result
        flat, tag = result.reshape(-1), self._tag(RankOperation.BROADCAST, result, root)
        first = self.rank == root
        if flat.nbytes <= WHOLE_BYTES:
            self._trade(tag, dict.fromkeys(range(self.size), flat) if first else {}, {} if first else {root: flat})
            return result
        # Each rank passes on what it got: the root sends its bytes once, not once to each.
        chunks = self._chunks(flat)
        self._trade(tag, dict(enumerate(chunks)) if first else {}, {} if first else {root: chunks[self.rank]})
        self._trade(tag, dict.fromkeys(range(self.size), chunks[self.rank]), dict(enumerate(chunks)))
        return result

    @checked
    def reduce(self, array: ArrayLike, root: int = 0, operation: Reduction = "sum") -> Array:
        """The sum over all ranks on rank `root`, and zeros on the others."""
        self._check_rank("reduce", root)
        array = in_order(array)
        if self.size == 1:
            return np.array(array)
        tag, first = self._tag(RankOperation.REDUCE, array, operation, root), self.rank == root
        parts = np.empty((self.size if first else 0, array.size), array.dtype)
        self._trade(tag, {root: array.reshape(-1)}, dict(enumerate(parts)))
        return reduced(parts, operation).reshape(array.shape) if first else np.zeros(array.shape, array.dtype)

    @checked
    def shift(self, array: ArrayLike, by: int = 1) -> Array:
        """x of rank - `by`, in a ring; `-by` is the way back."""
        array = in_order(array)
        received = np.empty(array.shape, array.dtype)
        tag = self._tag(RankOperation.SHIFT, array, by)
        self._trade(tag, {(self.rank + by) % self.size: array}, {(self.rank - by) % self.size: received})
        return received

    @checked
    def send(self, array: ArrayLike, source: int, target: int, tag: int = 0) -> Array:
        """x of rank `source` on rank `target`, which receives it, and zeros on the others.

        The source goes on before it has come, and other ranks need not call it; `receive` is the target's half.
        """
        self._check_rank("send", source)
        self._check_rank("send", target)
        array = in_order(array)
        if self.rank == source == target:
            return np.array(array)
        if self.rank == source:
            self.send_to(array, target, tag)
        return self.receive_like(array, source, tag) if self.rank == target else np.zeros(array.shape, array.dtype)

    @checked
    def receive(self, source: int, tag: int = 0) -> Array:
        """The next array that rank `source` sends us, whatever its shape and type."""
        self._check_rank("receive", source)
        if source == self.rank:
            raise ArgumentError("receive", got=f"our own rank {source}", need="another one")
        return self.receive_like(None, source, tag)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self._gathered_bytes(RankOperation.BARRIER, b"\0")

    def any(self, *, asked: bool) -> bool:
        """Whether any rank asks for it: the same answer on all."""
        return bool(self.allreduce(np.array([asked], np.uint8), "max")[0])

    def agree(self, subject: str, text: str, *, fix: str = "give every rank the same seed, options and files") -> None:
        """DisagreementError, on every rank, where the ranks do not give the same text: with what differs first."""
        groups = self._groups_of(subject, text)
        if len(groups) == 1:
            return
        first, *others = groups.values()
        texts = self._gathered_texts(text)
        own, other = first_difference(texts[first[0]], texts[others[0][0]])
        elsewhere = ranks_text(sorted(rank for ranks in others for rank in ranks))
        got = f"{own!r} on {ranks_text(first)}, {other!r} on {elsewhere}"
        raise DisagreementError(subject, got=got, need="the same on every rank", fix=fix)

    def all_the_same(self, subject: str, text: str) -> bool:
        """Whether all ranks give this text: the same answer on all."""
        return len(self._groups_of(subject, text)) == 1

    def _groups_of(self, subject: str, text: str) -> dict[bytes, list[int]]:
        """The ranks that give the same text, by its digest."""
        groups: dict[bytes, list[int]] = {}
        digest = hashlib.sha256(text.encode()).digest()
        for rank, each in enumerate(self._gathered_bytes(RankOperation.AGREE, digest, subject)):
            groups.setdefault(each, []).append(rank)
        return groups

    def _gathered_texts(self, text: str) -> list[str]:
        """Those of all ranks, however long."""
        data = text.encode()
        longest = int(self.allreduce(np.array([len(data)], np.int64), "max")[0])
        texts = self._gathered_bytes(RankOperation.AGREE, data.ljust(longest, b"\0"))
        return [each.rstrip(b"\0").decode() for each in texts]

    def abort(self, code: int = 1) -> None:
        """End all processes of the launch."""
        if self._wire is not None:
            self._wire.Abort(code)
        os._exit(code)

    def _gathered_bytes(self, operation: RankOperation, data: bytes, subject: str = "") -> list[bytes]:
        own = np.frombuffer(data, np.uint8)
        parts = np.empty((self.size, own.size), np.uint8)
        tag = self._tag(operation, own)
        self._doing = f"{operation.name.lower()} on {subject} (operation {self._turn})" if subject else self._doing
        self._trade(tag, dict.fromkeys(range(self.size), own), dict(enumerate(parts)))
        return [part.tobytes() for part in parts]

    def _blocks(self, subject: str, array: Array) -> Array:
        """x[size · n, …] as blocks[size, n, …]."""
        if not array.ndim or array.shape[0] % self.size:
            need = f"a first axis that {self.size} ranks divide"
            raise ShapeError(subject, got=f"shape {array.shape}", need=need)
        return array.reshape(self.size, array.shape[0] // self.size, *array.shape[1:])

    def _chunks(self, flat: Array) -> list[Array]:
        """A chunk for each rank, nearly equal ones."""
        bounds = [flat.size * rank // self.size for rank in range(self.size + 1)]
        return [flat[begin:end] for begin, end in pairwise(bounds)]

    def _check_rank(self, subject: str, rank: int) -> None:
        if not 0 <= rank < self.size:
            raise ArgumentError(subject, got=f"rank {rank}", need=f"one of 0 to {self.size - 1}")


@cache
def world() -> Communicator:
    """All ranks of this launch; a process that nobody launched is alone.

    BackendError for a launched process without mpi4py.
    """
    if others := alone_beside():
        text = f"nnc.parallel: srun started {others} tasks beside this one, each a world of its own"
        warnings.warn(f"{text}. Fix: srun --mpi=pmi2, or nnc launch", RuntimeWarning, stacklevel=2)
    return Communicator(None if rank_in() is None else mpi().COMM_WORLD)
