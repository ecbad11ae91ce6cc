"""Weights of a file, and what programs make of them beforehand: one copy for all programs, gone with the last of them.

A value has a number: that of a tensor of the file, of the bytes of a constant, or of a command and the numbers that it
reads. Tensors of one number hold the same elements.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

import onnx
from nnc.core.forking import fork_safe_lock
from nnc.core.spec import Blocked
from nnc.core.tensor import Tensor
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.ir import TensorKey
from nnc.symbolic.passes import Beforehand, prune

Array = NDArray[Any]
# So many numbers are known; then all are forgotten, and what is made from then on is shared among itself.
MOST_NUMBERS = 1 << 16


@dataclass(slots=True, eq=False)
class SharedWeights:
    """`messages` are the tensors of a file, by identity. A copy of it shares nothing with it."""

    messages: Mapping[int, onnx.TensorProto] = field(default_factory=dict)
    _arrays: WeakValueDictionary[int, Array] = field(default_factory=WeakValueDictionary)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _tensors: WeakValueDictionary[int, Tensor] = field(default_factory=WeakValueDictionary)
    _count: count[int] = field(default_factory=count)
    _lock: Any = field(default_factory=fork_safe_lock)

    def __reduce__(self) -> tuple[object, ...]:
        return SharedWeights, ()

    def array(self, message: onnx.TensorProto) -> Array | None:
        """The elements of a tensor of the file, where somebody holds them."""
        return self._arrays.get(id(message))

    def keep(self, message: onnx.TensorProto, array: Array) -> Array:
        """The elements that all readers share: these, unless there are some."""
        return self._arrays.setdefault(id(message), array) if id(message) in self.messages else array

    def number(self, array: Array, message: int) -> int:
        """The number of a tensor of the file by its identity, else by its elements."""
        if message in self.messages:
            return self._number(message)
        digest = blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=32).digest()
        return self._number((array.shape, array.dtype.str, digest))

    def made(
        self,
        before: Beforehand,
        given: Mapping[Symbol, Tensor],
        numbers: Mapping[Symbol, int],
        wanted: Collection[Symbol],
    ) -> tuple[dict[Symbol, Tensor], int]:
        """The `wanted` results of weights, computed where nobody holds them; bytes that were there to make them."""
        known = {inner.key: numbers[symbol] for symbol, inner in before.parameters.items()}
        self._visit(before.graph, known)
        places = {symbol: known[before.graph.root(before.results[symbol].key)] for symbol in wanted}
        found = {symbol: tensor for symbol, place in places.items() if (tensor := self._tensors.get(place)) is not None}
        own = {symbol: Tensor.empty(symbol.spec, "frozen weight") for symbol in wanted if symbol not in found}
        if not own:
            return found, 0
        bind = {before.results[symbol]: tensor for symbol, tensor in own.items()}
        prune(before.graph, tuple(bind))
        read = {inner: given[symbol] for symbol, inner in before.parameters.items()}
        # Once, and each of other shapes: not worth native code.
        folding = compile(before.graph, tuple(bind), given=read, bind=bind, backend="reference")
        folding.run()
        for symbol, tensor in own.items():
            self._tensors[places[symbol]] = tensor
        # The reference has a second copy of what it puts into blocks, one tensor after the other.
        copied = max((one.spec.nbytes for one in own.values() if isinstance(one.spec.layout, Blocked)), default=0)
        return found | own, sum(one.spec.nbytes for one in own.values()) + folding.memory().arena + copied

    def _visit(self, graph: SymbolicGraph, known: dict[TensorKey, int]) -> None:
        """The numbers of all roots of a graph: of what is written where, by which command, from which numbers."""
        parts: dict[TensorKey, list[Hashable]] = {}
        for key in graph.execs.toposort():
            record = graph.execs[key]
            read = []
            for one in record.inputs:
                if one is not None and (root := graph.root(one)) not in known:
                    known[root] = self._number((graph.tensors[root].spec, *parts.pop(root)))
                read.append(
                    None if one is None else (known[graph.root(one)], graph.tensors[one].spec, graph.region(one))
                )
            for place, one in enumerate(record.outputs):
                part = (record.command, tuple(read), place, graph.region(one))
                parts.setdefault(graph.root(one), []).append(part)
        known |= {root: self._number((graph.tensors[root].spec, *each)) for root, each in parts.items()}

    def _number(self, what: Hashable) -> int:
        with self._lock:
            if len(self._numbers) >= MOST_NUMBERS:
                self._numbers.clear()
            return self._numbers.setdefault(what, next(self._count))
