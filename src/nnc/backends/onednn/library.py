"""The C interface of oneDNN 3: what a matrix product needs of it.

https://uxlfoundation.github.io/oneDNN/v3.2/group_dnnl_api.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
from enum import IntEnum
from importlib.metadata import PackageNotFoundError, distribution
from weakref import finalize

from nnc.classes import dataclass
from nnc.errors import BackendError

DISTRIBUTION = "onednn-cpu-gomp"
LIBRARY, OPEN_MP = "libdnnl.so.3", "libgomp.so.1"
CPU_ENGINE, IN_ORDER, F32 = 1, 1, 3


class Role(IntEnum):
    """What an operand of a product is."""

    SOURCE = 1
    RESULT = 17
    WEIGHTS = 33
    BIAS = 41


class Handle:
    """An object of the library, destroyed with this one."""

    def __init__(self, value: c_void_p, destroy: object) -> None:
        self.value = value
        finalize(self, destroy, value)  # type: ignore[arg-type]  # a function of ctypes


class Argument(ctypes.Structure):
    """An operand of a call."""

    _fields_ = (("role", c_int), ("memory", c_void_p))


@dataclass(frozen=True, slots=True)
class DnnOperand:
    """Elements of f32 at an address; strides in elements, all above 0."""

    address: int
    shape: Sequence[int]
    strides: Sequence[int]


class OnednnLibrary:
    """The library with its engine and its stream, both of this process's processor."""

    def __init__(self) -> None:
        try:
            files = distribution(DISTRIBUTION).files or ()
        except PackageNotFoundError as error:
            need, fix = f"the package {DISTRIBUTION}", "pip install nnc[onednn]"
            raise BackendError("onednn", got="no library", need=need, fix=fix) from error
        path = next((str(file.locate()) for file in files if file.name == LIBRARY), LIBRARY)
        try:
            self._functions = ctypes.CDLL(path)
            self._threads = ctypes.CDLL(OPEN_MP)
        except OSError as error:
            raise BackendError("onednn", got=str(error), need=f"{LIBRARY} and {OPEN_MP}") from error
        self.engine = self.make("engine_create", "engine_destroy", c_int(CPU_ENGINE), c_size_t(0))
        self.stream = self.make("stream_create", "stream_destroy", self.engine.value, c_int(IN_ORDER))

    def call(self, name: str, *arguments: object) -> None:
        """Call a function; BackendError when it does not return success."""
        if status := getattr(self._functions, f"dnnl_{name}")(*arguments):
            raise BackendError("onednn", got=f"status {status} of {name}", need="a product that the library knows")

    def make(self, create: str, destroy: str, *arguments: object) -> Handle:
        """What a function makes."""
        value = c_void_p()
        self.call(create, byref(value), *arguments)
        return Handle(value, getattr(self._functions, f"dnnl_{destroy}"))

    def describe(self, operand: DnnOperand) -> Handle:
        """The layout of an operand."""
        rank = len(operand.shape)
        numbers = c_int64 * rank
        create, destroy = "memory_desc_create_with_strides", "memory_desc_destroy"
        shape, strides = numbers(*operand.shape), numbers(*operand.strides)
        return self.make(create, destroy, c_int(rank), shape, c_int(F32), strides)

    def use_threads(self, count: int) -> None:
        """How many workers the next calls have."""
        self._threads.omp_set_num_threads(c_int(count))


class DnnProduct:
    """result = source @ weights + bias, ready to run again and again on operands where they are."""

    def __init__(self, library: OnednnLibrary, operands: dict[Role, DnnOperand]) -> None:
        self._library = library
        described = {role: library.describe(operand) for role, operand in operands.items()}
        engine, names = library.engine.value, ("matmul_primitive_desc_create", "primitive_desc_destroy")
        order = (Role.SOURCE, Role.WEIGHTS, Role.BIAS, Role.RESULT)
        given = (described[role].value if role in described else None for role in order)
        plan = library.make(*names, engine, *given, None)
        self._primitive = library.make("primitive_create", "primitive_destroy", plan.value)
        names = ("memory_create", "memory_destroy")
        self._memories = {
            role: library.make(*names, described[role].value, engine, c_void_p(operand.address))
            for role, operand in operands.items()
        }
        arguments = [Argument(role, made.value) for role, made in self._memories.items()]
        self._arguments = (Argument * len(arguments))(*arguments)

    def __call__(self) -> None:
        """Run, and wait until the result is there."""
        library = self._library
        count = c_int(len(self._arguments))
        library.call("primitive_execute", self._primitive.value, library.stream.value, count, self._arguments)
        library.call("stream_wait", library.stream.value)
