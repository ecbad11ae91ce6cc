"""Results that are kept, and found again when equal work is asked for.

    key(y) = (command, key(x₀), key(x₁), …)          key(leaf) = (spec, digest of its elements)

Keys are numbered, so that a key of a key is short: equal numbers mean equal elements. The numbers outlive the results,
so what is computed again is what it was, and what was computed from it is found. Results stay within a budget of bytes;
the one of least rank goes first, where L is the rank of the last one that went:

    recent    rank = the time of the last use
    work      rank = L + operations / bytes            (GreedyDual-Size; Cao and Irani 1997)
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from itertools import count
from types import MappingProxyType
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from nnc.classes import dataclass
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.recent import TwoGenerations
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.values.device import CPU
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.execution.lazy import HeldTensor
from nnc.dynamic.execution.prepared import PreparedCommand
from nnc.ops.composed.custom import KERNEL
from nnc.ops.work import work

# Keys whose numbers are remembered, some 200 bytes each.
KEYS = 1 << 16
BUDGET = 1 << 28

Policy: TypeAlias = Literal["recent", "work"]
Key: TypeAlias = tuple[Hashable, ...]


@dataclass(slots=True, eq=False)
class _Kept:
    """Results of a command: their bytes, what computing them takes, and their rank at the last use."""

    tensors: tuple[Tensor, ...]
    nbytes: int
    operations: int
    rank: float = 0.0


class ResultCache(Uncopied):
    """Results by their keys, at most `most_bytes` of them; any thread may use it. `hits` and `misses` are counted."""

    instead: ClassVar[str] = "make another one"

    def __init__(self, most_bytes: int = BUDGET, policy: Policy = "recent") -> None:
        self.most_bytes = most_bytes
        self.policy = policy
        self.nbytes = self.hits = self.misses = 0
        self._lock = fork_safe_rlock()
        self._fresh = count()
        self._times = count()
        self._last_rank = 0.0
        self._numbers: TwoGenerations[Key, tuple[int, ...]] = TwoGenerations(lambda: KEYS)
        self._known: weakref.WeakKeyDictionary[Tensor, int] = weakref.WeakKeyDictionary()
        self._kept: dict[Key, _Kept] = {}
        # (rank, time, key) of each use: those whose rank has grown since are passed over.
        self._ranked: list[tuple[float, int, Key]] = []
        _ALL.add(self)

    def outputs(
        self,
        prepared: PreparedCommand,
        inputs: Sequence[HeldTensor | None],
        compute: Callable[[], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """What the command gives for these inputs: found, or computed and kept."""
        if prepared.command.op in KERNEL:
            # The author of a custom command may look at more than its inputs.
            return compute()
        with self._lock:
            key = (prepared.command, *(None if operand is None else self._named(operand) for operand in inputs))
            kept = self._kept.get(key)
            if kept is not None:
                self.hits += 1
                self._rank(key, kept)
                return kept.tensors
            self.misses += 1
        tensors = compute()
        with self._lock:
            self._keep(key, tensors, prepared, [None if operand is None else operand.tensor.spec for operand in inputs])
        return tensors

    def knows(self, tensor: Tensor) -> bool:
        """Whether others may hold this very tensor as the result of equal work."""
        with self._lock:
            return tensor in self._known

    def _named(self, held: HeldTensor) -> Hashable:
        """What stands for the elements in a key: the number of the root, and which part of it they are."""
        tensor, root = held.tensor, held.root
        number = self._known.get(root)
        if number is None:
            digest = blake2b(np.ascontiguousarray(root.to(CPU).numpy()).view(np.uint8).data, digest_size=16).digest()
            (number,) = self._numbered((root.spec, digest), 1)
            if root.storage.label != "numpy":
                # Shared memory may hold something else the next time.
                self._known[root] = number
        return number if tensor is root else (number, tensor.spec, held.offset, tensor.strides)

    def _numbered(self, key: Key, many: int) -> tuple[int, ...]:
        numbers = self._numbers.get(key)
        return self._numbers.put(key, tuple(next(self._fresh) for _ in range(many))) if numbers is None else numbers

    def _keep(
        self,
        key: Key,
        tensors: tuple[Tensor, ...],
        prepared: PreparedCommand,
        inputs: Sequence[TensorSpec | None],
    ) -> None:
        for tensor, number in zip(tensors, self._numbered(key, len(tensors)), strict=True):
            self._known[tensor] = number
        specs = [value.spec for value in tensors]
        kept = _Kept(tensors, sum(spec.nbytes for spec in specs), work(prepared.command, inputs, specs))
        if kept.nbytes > self.most_bytes or key in self._kept:
            return
        self._kept[key] = kept
        self.nbytes += kept.nbytes
        self._rank(key, kept)
        while self.nbytes > self.most_bytes:
            self._drop_least()

    def _rank(self, key: Key, kept: _Kept) -> None:
        time = next(self._times)
        kept.rank = time if self.policy == "recent" else self._last_rank + kept.operations / max(kept.nbytes, 1)
        heapq.heappush(self._ranked, (kept.rank, time, key))
        if len(self._ranked) > 4 * len(self._kept) + 64:
            self._ranked = [(result.rank, place, key) for place, (key, result) in enumerate(self._kept.items())]
            heapq.heapify(self._ranked)

    def _drop_least(self) -> None:
        while True:
            rank, _, key = heapq.heappop(self._ranked)
            kept = self._kept.get(key)
            if kept is not None and kept.rank == rank:
                break
        del self._kept[key]
        self.nbytes -= kept.nbytes
        self._last_rank = rank

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"ResultCache: {len(self)} results of {self.nbytes} B, {self.hits} found, {self.misses} computed"


_ALL: weakref.WeakSet[ResultCache] = weakref.WeakSet()
# Caches by the number of their graph, in this context.
CACHES: ContextVar[Mapping[int, ResultCache]] = ContextVar("caches", default=MappingProxyType({}))


@contextmanager
def remembering(graph: int, cache: ResultCache) -> Iterator[ResultCache]:
    """Commands of a graph look into the cache inside, and leave their results there."""
    token = CACHES.set({**CACHES.get(), graph: cache})
    try:
        yield cache
    finally:
        CACHES.reset(token)


def unshared(tensor: Tensor | None) -> Tensor | None:
    """The tensor, to be written over; a copy of it where a cache may give it to others."""
    return tensor.clone() if tensor is not None and any(value.knows(tensor) for value in tuple(_ALL)) else tensor
