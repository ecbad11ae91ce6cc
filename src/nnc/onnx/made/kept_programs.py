"""Programs of a file that another process has made, on the disk by the file's content, options, and input shapes.

What import and planning ask of elements is kept too: the same values are asked for, and the file is cut at the same
node (docs/design/0041-programs-on-disk.md).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import U8, dtype_of
from nnc.core.values.recorder import PROFILER
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import aligned
from nnc.core.values.tensor import Tensor
from nnc.errors import NncError
from nnc.onnx.kept.asked_elements import TWINS, Unknown
from nnc.onnx.made.kept_file import ModelFile, onnx_state
from nnc.onnx.weights import MOST_PACKED
from nnc.symbolic import Arena, MemoryStatement
from nnc.symbolic.compiler.stored_programs import RestoredProgram, StoredPort, StoredProgram, restored, stored_program
from nnc.symbolic.sharing.program_disk import MODULES, ProgramDisk

if TYPE_CHECKING:
    # What is kept; a program from the disk needs none of it.
    from nnc.onnx.node_values import OnnxValue
    from nnc.symbolic import Compiled, Symbol, TensorKey

Array: TypeAlias = NDArray[Any]
# What a record of another form raises where it is read.
OTHER_FORMS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, NncError)
MODULES.remember()


@dataclass(slots=True, eq=False)
class CachedSources:
    """Whether the parts of a file take programs from the disk: not behind a question about how these came to be."""

    used: bool = True

    def are_used(self) -> bool:
        """False, too, in debug mode and while somebody looks at commands: a program from the disk has none."""
        return self.used and not SETTINGS.debug and not PROFILER.recorders


@dataclass(frozen=True, slots=True, eq=False)
class CachedProgram:
    """A program from the disk: the inputs that it reads in order, and each output by its number or as a constant.

    `nbytes` and `making` are those of the program that was kept, and `held` the bytes that it was bound to, of which
    `inside` lie where the file was read to.
    """

    program: RestoredProgram
    inputs: tuple[str, ...]
    outputs: tuple[int | Array, ...]
    nbytes: int
    making: int
    held: int
    inside: int

    @property
    def resident(self) -> RestoredProgram:
        """What has its values in the arena."""
        return self.program

    def memory(self) -> MemoryStatement:
        """The bytes of a run of this alone."""
        return self.program.memory()

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs, as arrays of their own."""
        computed = self.program.read([feeds[name] for name in self.inputs])
        return [computed[output] if isinstance(output, int) else np.array(output) for output in self.outputs]

    def looks(self) -> list[Array]:
        """An array like each output, which takes no memory; a constant itself."""
        ports = self.program.stored.outputs
        return [_zeros_of(ports[output]) if isinstance(output, int) else output for output in self.outputs]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramPlace:
    """Where the disk has the program of a file for inputs of one kind."""

    disk: ProgramDisk
    key: str
    file: ModelFile

    @classmethod
    def of(cls, file: ModelFile, backend: str, options: object) -> ProgramPlace | None:
        """None where nothing is kept: without a cache folder, and of a file whose content is not known."""
        disk = ProgramDisk.at_hand(backend) if file.digest else None
        if disk is None:
            return None
        return cls(disk, disk.key(f"onnx {onnx_state()} {file.digest} {backend} {options!r}"), file)

    def load(self, arena: Arena, given: Collection[str]) -> CachedProgram | None:
        """The program in this arena for what is given of these names; None for what does not fit.

        Unknown where making it asks for elements.
        """
        values = self.disk.load(self.key)
        if values is None:
            return None
        try:
            if "unknown" in values:
                unknown = _unknown(values["unknown"])
            else:
                program = self._program(values, arena)
                return program if program is None or set(program.inputs) <= set(given) else None
        except OTHER_FORMS:
            return None
        raise unknown

    def _program(self, values: Mapping[str, Any], arena: Arena) -> CachedProgram | None:
        stored = stored_program(values["program"])
        pack = None if values["pack"] is None else self._made(*values["pack"])
        rows = list(zip(values["bound"], stored.bound, strict=True))
        made = self._all_made({row: nbytes for row, nbytes in rows if isinstance(row, str)})
        tensors = [self._bound(row, nbytes, pack, made) for row, nbytes in rows]
        whole = [tensor for tensor in tensors if tensor is not None]
        program = restored(stored, whole, arena) if len(whole) == len(tensors) else None
        if program is None:
            return None
        inputs = tuple(map(str, values["inputs"]))
        outputs = tuple(_output(row, len(stored.outputs)) for row in values["outputs"])
        if len(inputs) != len(stored.inputs):
            raise ValueError(f"{len(inputs)} names of {len(stored.inputs)} inputs")
        nbytes, making, held = (int(values[name]) for name in ("nbytes", "making", "held"))
        if (mapped := program.memory().mapped) and made:
            # Others have computed them.
            nbytes, making = max(nbytes - mapped, program.memory().program), program.memory().making
        return CachedProgram(program, inputs, outputs, nbytes, making, held, self.file.own_bytes(whole))

    def _bound(
        self, row: int | str | list[int], nbytes: int, pack: Tensor | None, made: Mapping[str, Tensor]
    ) -> Tensor | None:
        """A tensor of the file by its number; of what was made: a small one by its place in the pack, else by name."""
        if isinstance(row, int):
            return self.file.bound(row, nbytes)
        if isinstance(row, str):
            return made.get(row)
        (begin,) = row
        return None if pack is None else Tensor(TensorSpec((nbytes,), U8), pack.storage, begin)

    def _all_made(self, sizes: Mapping[str, int]) -> Mapping[str, Tensor]:
        """All bytes of these names that are there, where they are mapped in one file; else none of them."""

        def load() -> dict[str, Tensor] | None:
            made = {name: tensor for name, nbytes in sizes.items() if (tensor := self._made(name, nbytes)) is not None}
            return made if len(made) == len(sizes) else None

        made = self.file.weights.mapped(sizes, load) if sizes and self.file.weights.is_mapped else load()
        return made or {}

    def _made(self, name: str, nbytes: int) -> Tensor | None:
        """Bytes of that name, in one place for all who read them."""
        return self.file.weights.shared(f"kept {name}", lambda: self.disk.load_weight(name, nbytes))

    def keep_unknown(self, unknown: Unknown) -> None:
        """Keep what making the program asked for."""
        row = [sorted(unknown.names), unknown.what, unknown.whole, unknown.place]
        self.disk.store(self.key, {"unknown": row})

    def keep(
        self,
        compiled: Compiled,
        inputs: Mapping[str, Symbol],
        wanted: Sequence[Symbol],
        outputs: Iterable[OnnxValue],
        numbers: Mapping[str, int],
    ) -> None:
        """Keep a program that has run. Not one of loops, branches or other backends, nor of more weights than fit.

        `numbers` are the other fields of a `CachedProgram`.
        """
        order = {symbol.key: number for number, symbol in enumerate(wanted)}
        rows = [_output_row(output, order) for output in outputs]
        made = None if None in rows else StoredProgram.of(compiled, tuple(inputs.values()), wanted)
        if made is None:
            return
        program, bound = made
        own = self.file.weights.initializers(tensor.storage.address for tensor in bound)
        if not self.disk.can_hold(sum(t.spec.nbytes for t in bound if t.storage.address not in own)):
            return
        names = {place: own[t.storage.address] for place, t in enumerate(bound) if t.storage.address in own}
        values = {"program": program.content(), "inputs": [*inputs], "outputs": rows, **numbers}
        self.disk.store(self.key, {**values, **self._stored(bound, names)})

    def _stored(self, bound: Sequence[Tensor], own: Mapping[int, int]) -> dict[str, Any]:
        """Tensors of the file by their numbers, which are known of these places; what was made in entries."""
        small = [t for place, t in enumerate(bound) if place not in own and t.spec.nbytes <= MOST_PACKED]
        begins, end = {}, 0
        for tensor in small:
            begins[id(tensor)], end = [end], end + aligned(tensor.spec.nbytes)
        pack = Tensor.zeros(TensorSpec((end,), U8))
        for tensor in small:
            (begin,), nbytes = begins[id(tensor)], tensor.spec.nbytes
            pack.storage.bytes[begin : begin + nbytes] = tensor.storage.bytes[tensor.offset : tensor.offset + nbytes]
        rows = [
            own[place] if place in own else begins.get(id(tensor)) or self.disk.store_weight(tensor)
            for place, tensor in enumerate(bound)
        ]
        return {"bound": rows, "pack": [self.disk.store_weight(pack), end] if small else None}


def _zeros_of(port: StoredPort) -> Array:
    return np.broadcast_to(np.zeros((), dtype_of(port.dtype).numpy), port.shape)


def _unknown(row: Sequence[Any]) -> Unknown:
    names, what, whole, place = row
    unknown = Unknown(frozenset(map(str, names)), str(what), whole=bool(whole))
    unknown.place = int(place)
    return unknown


def _output_row(output: OnnxValue, order: Mapping[TensorKey, int]) -> int | list[Any] | None:
    """A number, or a constant as (type, shape, bytes); None for sequences, maps and text."""
    if output.items is not None or output.meaning is not None:
        return None
    if output.symbol is not None:
        return order[output.symbol.key]
    if output.array is None or output.array.dtype not in TWINS:
        return None
    array = np.ascontiguousarray(output.array)
    return [dtype_of(array.dtype).name, list(output.array.shape), b64encode(array.tobytes()).decode()]


def _output(row: int | list[Any], count: int) -> int | Array:
    if isinstance(row, int):
        if not 0 <= row < count:
            raise ValueError(f"output {row} of {count}")
        return row
    dtype, shape, content = row
    return np.frombuffer(b64decode(content), dtype_of(dtype).numpy).reshape(shape)
