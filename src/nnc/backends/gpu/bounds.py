"""Where kernels left their operands, under NNC_DEBUG=1: a record in memory of the device for each launch of a table.

What a record holds, and what kernels write there, says `codegen.device.bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc.backends.gpu.device import OpenDevice
from nnc.backends.gpu.engine import DeviceEngine
from nnc.classes import dataclass
from nnc.codegen.device.bounds import HEAD_WORDS, WORD_BYTES, OutOfBounds
from nnc.codegen.program.assembling import CommandKernel, Draft
from nnc.core.values.storage import DeviceStorage
from nnc.errors import DeviceError


@dataclass(frozen=True, slots=True, eq=False)
class OperandBounds:
    """The records of some launches, which are kept as long as these."""

    drafts: Sequence[Draft]
    places: tuple[int, ...]
    words: NDArray[np.int64]
    storage: DeviceStorage

    @classmethod
    def of(cls, device: OpenDevice, drafts: Sequence[Draft]) -> OperandBounds:
        """Records in memory of their own, with the bounds of all operands."""
        words: list[int] = []
        places = []
        for draft in drafts:
            places.append(len(words))
            ends = [end for memory in (*draft.reads, *draft.writes) for end in (memory.begin, memory.end)]
            words += [*[0] * HEAD_WORDS, *ends]
        held = np.array(words, np.int64)
        storage = device.allocate(held.nbytes, "bounds")
        with device.entered() as engine:
            engine.upload(storage.address, int(held.ctypes.data), held.nbytes)
        return cls(drafts, tuple(places), held, storage)

    @property
    def addresses(self) -> list[int]:
        """Where the record of each launch is."""
        return [self.storage.address + WORD_BYTES * place for place in self.places]

    def look(self, engine: DeviceEngine) -> None:
        """DeviceError for the first launch that left an operand; its record is as before then."""
        held = np.empty_like(self.words)
        engine.download(int(held.ctypes.data), self.storage.address, held.nbytes)
        for draft, place in zip(self.drafts, self.places, strict=True):
            if held[place]:
                engine.upload(self.storage.address, int(self.words.ctypes.data), self.words.nbytes)
                raise _error(draft, OutOfBounds.of(int(held[place])))


def _error(draft: Draft, access: OutOfBounds) -> DeviceError:
    memory = (*draft.reads, *draft.writes)[access.operand]
    name = type(draft.generator).__name__ if draft.kernel is None else draft.kernel.command.op.name
    action = "a write" if access.written else "a read"
    return DeviceError(
        f"kernel {name}",
        got=f"{action} of {access.nbytes} bytes at byte {access.place} of {_operand_name(draft, access.operand)}",
        need=f"accesses inside its {memory.end - memory.begin} bytes",
        fix="a bug in nnc, or in a generator of yours: report it",
    )


def _operand_name(draft: Draft, number: int) -> str:
    """Operand 2 (`bias`), as its operator calls it."""
    names = () if draft.kernel is None else _operand_names(draft.kernel)
    return f"operand {number} ({names[number]})" if number < len(names) else f"operand {number}"


def _operand_names(kernel: CommandKernel) -> list[str]:
    op, given = kernel.command.op, [spec is not None for spec in kernel.inputs]
    inputs = op.inputs if isinstance(op.inputs, tuple) else [f"input {place}" for place in range(len(given))]
    outputs = op.outputs if isinstance(op.outputs, tuple) else [f"output {n}" for n in range(len(kernel.results))]
    return [*(name for name, present in zip(inputs, given, strict=True) if present), *outputs, "workspace"]
