"""A program of a file at work, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.machine_memory import obtainable_memory
from nnc.core.values.device import device_of
from nnc.errors import MemoryLimitError, UsageError
from nnc.symbolic import MemoryStatement

if TYPE_CHECKING:
    # What makes a program; one from the disk needs none of it.
    from nnc.onnx.node_values import OnnxValue
    from nnc.symbolic import Compiled, Symbol
    from nnc.symbolic.compiler.shared_arena import Resident

Array: TypeAlias = NDArray[Any]
Result: TypeAlias = Array | list[Array] | list[dict[object, float]] | None


@dataclass(frozen=True, slots=True, eq=False)
class OnnxProgram:
    """A graph for one signature: symbols of the inputs that it reads, and how to give each output.

    `nbytes` is about what its objects and the weights take that it has for itself, `making` what all of it took at the
    most until it was made; it is bound to `held` bytes of the file, of which `inside` lie where the file was read to.
    What comes `behind` its first runs is done once each, the last one first.
    """

    compiled: Compiled | None
    inputs: Mapping[str, Symbol]
    outputs: tuple[OnnxValue, ...]
    nbytes: int = 0
    making: int = 0
    wanted: tuple[Symbol, ...] = ()
    held: int = 0
    inside: int = 0
    behind: list[Callable[[OnnxProgram], None]] = field(default_factory=list)

    @property
    def resident(self) -> Resident | None:
        """What has its values in the arena."""
        return self.compiled

    def memory(self) -> MemoryStatement:
        """The bytes of a run of this alone."""
        assert self.compiled is not None
        return self.compiled.memory()

    def run(self, feeds: Mapping[str, Array]) -> list[Result]:
        """The outputs, as arrays of their own."""
        computed: dict[int, Array] = {}
        if self.compiled is not None:
            values = [(symbol, feeds[name]) for name, symbol in self.inputs.items()]
            arrays = self.compiled.read(values, self.wanted)
            computed = {symbol.key: array for symbol, array in zip(self.wanted, arrays, strict=True)}
            if self.behind:
                self.behind.pop()(self)
        return [result_of(value, computed) for value in self.outputs]


def result_of(value: OnnxValue, computed: Mapping[int, Array]) -> Result:
    """What the caller gets for a value: a constant, or what was computed for its symbol."""
    if value.items is not None:
        return [np.asarray(result_of(item, computed)) for item in value.items]
    array = None if value.array is None else np.array(value.array)
    if value.symbol is not None:
        array = computed[value.symbol.key]
    return array if value.meaning is None or array is None else value.meaning(array)


def zeros(shape: tuple[int, ...], kind: np.dtype[np.generic]) -> Array:
    """Zeros that take no memory."""
    return np.broadcast_to(np.zeros((), kind), shape)


def look_of(value: OnnxValue) -> Array:
    """An array like a value: itself where it is known."""
    if value.array is not None:
        return value.array
    spec = value.spec
    if spec is None:
        raise UsageError("plan", got="a sequence between stages", need="tensors", fix="run() it")
    return zeros(spec.shape, spec.dtype.numpy)


def check_memory(statement: MemoryStatement, weights: int) -> None:
    """MemoryLimitError before anything is allocated that this process cannot have."""
    elsewhere = sum(nbytes for memory, nbytes in statement.arenas.items() if not device_of(memory).is_host)
    need, have = statement.running - elsewhere + weights, obtainable_memory()
    if have is not None and need > have:
        got = f"{need:,} bytes for a run: arena {statement.arena:,}, results {statement.outputs:,}, weights {weights:,}"
        fix = "give smaller sizes: memory(...) says before a run what it takes"
        raise MemoryLimitError("onnx", got=got, need=f"at most the {have:,} that this process can have here", fix=fix)
