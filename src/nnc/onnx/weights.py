"""Weights of a file, and what programs make of them beforehand: one copy for all programs, gone with the last of them.

A value has a name: that of a tensor of the file, of the bytes of a constant, or of what computes it (`value_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.dtype import U8
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.symbolic.sharing.mapped_weights import WeightBlock, mapped_weights

if TYPE_CHECKING:
    # A program from the disk needs none of its messages.
    import onnx

Array = NDArray[Any]
# Weights that follow from others lie in one entry of the disk where they have at most this many bytes, and in no map.
MOST_PACKED = 1 << 16


@dataclass(slots=True, eq=False)
class SharedWeights:
    """`messages` are the tensors of a file, by identity. A copy of it shares nothing with it.

    Where it `is_mapped`, what is made lies in files that other processes map too.
    """

    messages: Mapping[int, onnx.TensorProto] = field(default_factory=dict)
    is_mapped: bool = False
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

    def mapped(
        self, sizes: Mapping[str, int], make: Callable[[], Mapping[str, Tensor] | None]
    ) -> dict[str, Tensor] | None:
        """Bytes by their sha256, in a file that other processes map too: made where nobody has made it."""
        order, specs = sorted(sizes), [TensorSpec((sizes[name],), U8) for name in sorted(sizes)]
        name = f"made {' '.join(order)}"
        held = mapped_weights(name, specs)
        if held is None:
            made = make()
            if made is None:
                return None
            held = WeightBlock.of([made[name] for name in order]).kept(name)
        return dict(zip(order, held, strict=True))

    def shared(self, name: str, make: Callable[[], Tensor | None]) -> Tensor | None:
        """The tensor of that name, which is made where nobody holds it."""
        tensor = self.held(name)
        if tensor is None and (tensor := make()) is not None:
            self.hold(name, tensor)
        return tensor

    def held(self, name: str) -> Tensor | None:
        """The tensor of that name, where somebody holds it."""
        return self._tensors.get(name)

    def hold(self, name: str, tensor: Tensor) -> None:
        """Have it for all who ask by that name, as long as somebody holds it."""
        self._tensors[name] = tensor
