"""Weights of a file, and what programs make of them beforehand: one copy for all programs, gone with the last of them.

A value has a name: that of a tensor of the file, of the bytes of a constant, or of what computes it (`value_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from hashlib import blake2b
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

import onnx
from nnc.classes import dataclass
from nnc.core.values.spec import Blocked
from nnc.core.values.tensor import Tensor
from nnc.symbolic import Symbol, TensorKey, compile
from nnc.symbolic.passes import Beforehand, prune
from nnc.symbolic.sharing.value_names import value_names

Array = NDArray[Any]


@dataclass(slots=True, eq=False)
class SharedWeights:
    """`messages` are the tensors of a file, by identity. A copy of it shares nothing with it."""

    messages: Mapping[int, onnx.TensorProto] = field(default_factory=dict)
    _arrays: WeakValueDictionary[int, Array] = field(default_factory=WeakValueDictionary)
    _tensors: WeakValueDictionary[str, Tensor] = field(default_factory=WeakValueDictionary)

    def __reduce__(self) -> tuple[object, ...]:
        return SharedWeights, ()

    def array(self, message: onnx.TensorProto) -> Array | None:
        """The elements of a tensor of the file, where somebody holds them."""
        return self._arrays.get(id(message))

    def keep(self, message: onnx.TensorProto, array: Array) -> Array:
        """The elements that all readers share: these, unless there are some."""
        return self._arrays.setdefault(id(message), array) if id(message) in self.messages else array

    def name(self, array: Array, message: int) -> str:
        """The name of a tensor of the file by its identity, else by its elements."""
        if message in self.messages:
            return f"tensor {message}"
        digest = blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=32).hexdigest()
        return f"{array.shape} {array.dtype.str} {digest}"

    def initializer(self, number: int) -> onnx.TensorProto:
        """A tensor of the file by its number; IndexError where there is none."""
        if number < 0:
            raise IndexError(number)
        return [*self.messages.values()][number]

    def initializers(self, addresses: Iterable[int]) -> dict[int, int]:
        """The numbers of the tensors of the file whose elements, which somebody holds, begin at these addresses."""
        numbers = {message: number for number, message in enumerate(self.messages)}
        held = {int(array.ctypes.data): numbers[message] for message, array in self._arrays.items()}
        return {address: held[address] for address in addresses if address in held}

    def shared(self, name: str, make: Callable[[], Tensor | None]) -> Tensor | None:
        """The tensor of that name, which is made where nobody holds it."""
        tensor = self._tensors.get(name)
        if tensor is None and (tensor := make()) is not None:
            self._tensors[name] = tensor
        return tensor

    def made(
        self,
        before: Beforehand,
        given: Callable[[Collection[Symbol]], Mapping[Symbol, Tensor]],
        name: Callable[[Symbol], str],
        wanted: Collection[Symbol],
        names: dict[TensorKey, str],
    ) -> tuple[dict[Symbol, Tensor], int]:
        """The `wanted` results of weights, computed where nobody holds them; bytes that were there to make them.

        Their `names` are kept, by symbol, for graphs that do the same work.
        """
        if any(symbol.key not in names for symbol in wanted):
            known = {inner.key: name(symbol) for symbol, inner in before.parameters.items()}
            named = value_names(before.graph, known)
            names.update((symbol.key, named[before.graph.root(before.results[symbol].key)]) for symbol in wanted)
        places = {symbol: names[symbol.key] for symbol in wanted}
        kept = {symbol: tensor for symbol, place in places.items() if (tensor := self._tensors.get(place)) is not None}
        own = {symbol: Tensor.empty(symbol.spec, "frozen weight") for symbol in wanted if symbol not in kept}
        if not own:
            return kept, 0
        bind = {before.results[symbol]: tensor for symbol, tensor in own.items()}
        prune(before.graph, tuple(bind))
        tensors = given(before.parameters)
        read = {inner: tensors[symbol] for symbol, inner in before.parameters.items()}
        # Once, and each of other shapes: not worth native code.
        folding = compile(before.graph, tuple(bind), given=read, bind=bind, backend="reference")
        folding.run()
        for symbol, tensor in own.items():
            self._tensors[places[symbol]] = tensor
        # The reference has a second copy of what it puts into blocks, one tensor after the other.
        copied = max((value.spec.nbytes for value in own.values() if isinstance(value.spec.layout, Blocked)), default=0)
        return kept | own, sum(value.spec.nbytes for value in own.values()) + folding.memory().arena + copied
