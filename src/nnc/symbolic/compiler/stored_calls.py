"""Calls of Python's kernels in a program that is kept on disk: what ranks send each other between native steps.

    stored = StoredCalls.of(backend, calls, places)           None where a command cannot be written
    restored = stored.loaded()                                in another process, which has imported the operators
    program = restored.over(storages, begins)

An operator goes by its registry and its name, which this package's own modules alone may have defined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from nnc.classes import dataclass
from nnc.core.running.dispatch import DISPATCHER, Call, Kernel, Program, Tensors
from nnc.core.running.late_names import LateModule
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import DType, dtype_of
from nnc.core.values.spec import Layout, TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError
from nnc.graph import Codec, Forms, Json, Registry, decode_call, encode_call

if TYPE_CHECKING:
    from nnc.ops.composed import custom
else:
    # Asked when a program is kept, of operators that are there.
    custom = LateModule("nnc.ops.composed.custom")

FORMS = Forms().add(DType, Codec(lambda dtype: dtype.name, lambda data, where: dtype_of(str(data))))
# Where memory of a program begins, and how many bytes it has, in the order of its spans.
Memory = Sequence[tuple[Storage, int, int]]


@dataclass(frozen=True, slots=True)
class StoredPort:
    """Where a value lies: in a span, 0 for the arena and i + 1 for bound tensor i, from `offset` on."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    span: int
    offset: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor, memory: Memory) -> Self | None:
        """That of a tensor; None for one in other memory, or in blocks."""
        spec, layout = tensor.spec, tensor.spec.layout
        if not isinstance(layout, Layout):
            return None
        for span, (storage, begin, nbytes) in enumerate(memory):
            if tensor.storage is storage and begin <= tensor.offset <= begin + nbytes:
                return cls(spec.shape, spec.dtype.name, layout.value, span, tensor.offset - begin, tensor.strides)
        return None

    def tensor(self, storages: Sequence[Storage], begins: Sequence[int]) -> Tensor:
        """The tensor there; of each span the storage and where it begins in it."""
        spec = TensorSpec(self.shape, dtype_of(self.dtype), Layout(self.layout))
        return Tensor(spec, storages[self.span], begins[self.span] + self.offset, self.strides)


Ports = tuple[StoredPort | None, ...]


@dataclass(frozen=True, slots=True)
class StoredCall:
    """An operator of a registry with its attributes, as `encode_call` writes them, and where its operands lie."""

    registry: str
    command: Json
    inputs: Ports
    outputs: Ports

    def read(self) -> AnyCommand:
        """The command. ValueError for an operator that no module of this package defined."""
        command = Command(*decode_call(Registry.named(self.registry), self.command, forms=FORMS))
        if not is_storable(command):
            raise ValueError(f"the operator {command.op.name} of somebody else")
        return command


@dataclass(frozen=True, slots=True)
class StoredCalls:
    """Calls of one backend, in order."""

    backend: str
    calls: tuple[StoredCall, ...]

    @classmethod
    def of(cls, backend: str, calls: Sequence[Call], memory: Memory) -> Self | None:
        """None where an operand lies in other memory, or a command is not this package's own or has no JSON form."""
        stored = [_stored(call, memory) for call in calls]
        made = tuple([call for call in stored if call is not None])
        return cls(backend, made) if len(made) == len(stored) else None

    @classmethod
    def read(cls, row: Mapping[str, Any], port: Callable[[Mapping[str, Any]], StoredPort]) -> Self:
        """Of what JSON has; `port` checks where an operand lies."""

        def ports(rows: Sequence[Mapping[str, Any] | None]) -> Ports:
            return tuple([None if each is None else port(each) for each in rows])

        calls = [
            StoredCall(str(call["registry"]), call["command"], ports(call["inputs"]), ports(call["outputs"]))
            for call in row["calls"]
        ]
        return cls(str(row["backend"]), tuple(calls))

    def loaded(self) -> LoadedCalls:
        """With their kernels."""
        backend = DISPATCHER.backend(self.backend)
        kernels = []
        for call in self.calls:
            inputs, outputs = (tuple(map(_spec_of, ports)) for ports in (call.inputs, call.outputs))
            command = call.read()
            if reason := backend.refusal(command, inputs, outputs):
                raise ValueError(reason)
            kernels.append(backend.kernel(command, inputs, outputs))
        return LoadedCalls(self, tuple(kernels))


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCalls:
    """Calls with the kernels that they run."""

    stored: StoredCalls
    kernels: tuple[Kernel, ...]

    def over(self, storages: Sequence[Storage], begins: Sequence[int]) -> Program:
        """One program on this memory."""

        def tensors(ports: Ports) -> tuple[Tensor | None, ...]:
            return tuple([None if port is None else port.tensor(storages, begins) for port in ports])

        pairs = zip(self.kernels, self.stored.calls, strict=True)
        calls = [Call(kernel, tensors(call.inputs), tensors(call.outputs)) for kernel, call in pairs]
        return DISPATCHER.backend(self.stored.backend).program(calls)


def is_storable(command: AnyCommand) -> bool:
    """Whether it is one of Python's kernels that a module of this package has defined."""
    return command.op.site is not None and command.op in custom.KERNEL


def _stored(call: Call, memory: Memory) -> StoredCall | None:
    if call.source is None or call.workspace is not None or not is_storable(call.source.command):
        return None
    command = call.source.command
    inputs, outputs = _ports(call.inputs, memory), _ports(call.outputs, memory)
    try:
        written = encode_call(command.op, command.attrs, FORMS)
    except FormatError:
        return None
    if inputs is None or outputs is None:
        return None
    return StoredCall(command.op.registry.name, written, inputs, outputs)


def _ports(tensors: Tensors, memory: Memory) -> Ports | None:
    """Where they lie; None where one lies elsewhere."""
    ports = tuple([None if tensor is None else StoredPort.of(tensor, memory) for tensor in tensors])
    absent = [tensor is None for tensor in tensors]
    return ports if absent == [port is None for port in ports] else None


def _spec_of(port: StoredPort | None) -> TensorSpec | None:
    return None if port is None else TensorSpec(port.shape, dtype_of(port.dtype), Layout(port.layout))
