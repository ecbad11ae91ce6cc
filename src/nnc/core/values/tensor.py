"""Tensors: a spec laid over a storage, at an offset, with strides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nnc.arguments import explained, frequent
from nnc.classes import dataclass
from nnc.core.values.conversion import check_values
from nnc.core.values.device import CPU, Device
from nnc.core.values.dlpack import HOST_NUMBER, capsule_of, number_of
from nnc.core.values.dtype import DType, dtype_of
from nnc.core.values.pool import Pool
from nnc.core.values.spec import AnyLayout, Layout, Shape, TensorSpec, broadcast_shapes, check_shape, contiguous_strides
from nnc.core.values.storage import DeviceStorage, Storage, allocate_on, memory_of
from nnc.errors import DeviceError, DTypeError, ShapeError, UsageError
from nnc.graph.screen import fitted, preformatted

Array = NDArray[np.generic]

# Steps that the exact question may take, for strided memory; beyond it two tensors count as overlapping.
OVERLAP_WORK = 10_000
BEYOND_I64, U64_MOST = 1 << 63, (1 << 64) - 1


@explained
class Tensor:
    """element[i…] is at byte `offset + sum(i · strides) · itemsize` of `storage`; strides count elements."""

    __slots__ = ("__weakref__", "_made", "address", "is_contiguous", "offset", "spec", "storage", "strides")

    def __init__(self, spec: TensorSpec, storage: Storage, offset: int = 0, strides: Shape | None = None) -> None:
        self.spec = spec
        self.storage = storage
        self.offset = offset
        whole = contiguous_strides(spec.shape)
        self.strides = whole if strides is None else strides
        # Address of element [0, …, 0].
        self.address = storage.address + offset
        self._made: Array | None = None
        self._check_bounds(storage.nbytes)
        # True when the elements lie in row-major order without holes.
        self.is_contiguous = self.strides == whole or not spec.elements or self._has_no_gaps(whole)

    def _has_no_gaps(self, whole: Shape) -> bool:
        """Whether strides differ from row-major ones at axes of size 1 alone."""
        axes = zip(self.strides, whole, self.spec.shape, strict=True)
        return all(stride == dense for stride, dense, size in axes if size > 1)

    @property
    def _array(self) -> Array:
        """The elements as NumPy's, made when first asked for: small kernels take less time."""
        array = self._made
        if array is None:
            array = self._made = self._as_array()
        return array

    def _as_array(self) -> Array:
        spec, storage = self.spec, self.storage
        if not spec.elements:
            return np.empty(spec.shape, spec.dtype.numpy)
        # The stride of an axis of size 1 leads nowhere and may be beyond what NumPy can count.
        steps = [stride if size > 1 else 0 for stride, size in zip(self.strides, spec.shape, strict=True)]
        byte_strides = tuple(step * spec.dtype.itemsize for step in steps)
        return np.ndarray(spec.shape, spec.dtype.numpy, storage.bytes.data, self.offset, byte_strides)

    def _check_bounds(self, nbytes: int) -> None:
        if len(self.strides) != self.spec.rank:
            raise ShapeError("tensor", got=f"strides {list(self.strides)} for {self.spec}", need="one stride per axis")
        if self.spec.elements == 0:
            return
        reach = [(size - 1) * stride for size, stride in zip(self.spec.shape, self.strides, strict=True)]
        first = self.offset + sum(step for step in reach if step < 0) * self.spec.dtype.itemsize
        last = self.offset + (sum(step for step in reach if step > 0) + 1) * self.spec.dtype.itemsize
        if first < 0 or last > nbytes:
            got = f"{self.spec} over bytes {first}..{last}"
            raise ShapeError("tensor", got=got, need=f"bytes inside its storage of {nbytes}")

    @classmethod
    def empty(cls, spec: TensorSpec, label: str = "", pool: Pool | None = None) -> Self:
        """A tensor with uninitialized memory of the spec's device, fresh or from a pool."""
        device, nbytes = spec.device, spec.nbytes
        storage = allocate_on(device, nbytes, label) if pool is None else pool.of(device).allocate(nbytes, label)
        return cls.over(spec, storage, contiguous_strides(spec.shape))

    @classmethod
    @frequent
    def over(cls, spec: TensorSpec, storage: Storage, strides: Shape) -> Self:
        """A tensor over all of a storage that was allocated for it; `strides` are the row-major ones of the spec."""
        made = cls.__new__(cls)
        made.spec, made.storage, made.offset, made.strides = spec, storage, 0, strides
        made.address, made.is_contiguous, made._made = storage.address, True, None
        return made

    @classmethod
    def zeros(cls, spec: TensorSpec, label: str = "") -> Self:
        """A tensor of zeros, whose memory is there at once."""
        tensor = cls.empty(spec, label)
        tensor.clear()
        return tensor

    @classmethod
    def fresh_zeros(cls, spec: TensorSpec, label: str = "") -> Self:
        """A tensor of zeros that takes memory of the host only where it is written: each page with its first number."""
        if not spec.device.is_host:
            return cls.zeros(spec, label)
        return cls.over(spec, Storage.allocate(spec.nbytes, label, zeroed=True), contiguous_strides(spec.shape))

    def clear(self) -> None:
        """Let all elements, which are contiguous, be zero. UsageError for memory that may not be written."""
        spec = self.spec
        if self.storage.read_only:
            raise UsageError("clear", got=f"{spec} in read-only memory", need="memory that may be written")
        if spec.device.is_host:
            self._array[...] = 0
        elif spec.nbytes:
            memory_of(spec.device).fill(spec.device, self.address, spec.nbytes, 0)

    def copied(self) -> Array:
        """The elements as an array of NumPy's in memory of its own, wherever they lie."""
        return np.array(self.to(CPU).numpy())

    @classmethod
    def from_numpy(cls, value: ArrayLike, dtype: DType | str | None = None, *, layout: AnyLayout = Layout.NHWC) -> Self:
        """A tensor over `value`'s own memory where NumPy can give it (no copy), else over a copy.

        A copy is made of lists, of elements in foreign byte order or off their alignment, and of negative strides.
        Values that an integer `dtype` cannot hold are a DTypeError.

        >>> tensor = Tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> print(tensor.spec, tensor.shares_memory)
        f32[2, 3] True
        """
        array = as_array(value)
        twin = dtype_of(array.dtype.newbyteorder("=") if dtype is None else dtype)
        if array.dtype.kind not in "biuf":
            # Text is refused, and complex numbers beside a real type; those beyond NumPy's own are known by name.
            own = dtype_of(array.dtype)
            if own.kind == "complex" != twin.kind:
                raise DTypeError("from_numpy", got=f"{own} into {twin}", need="real numbers", fix="take real() first")
        check_values("from_numpy", array, twin)
        with np.errstate(all="ignore"):
            array = array.astype(twin.numpy, copy=False)
        spec = TensorSpec(array.shape, twin, layout)
        if any(stride < 0 or stride % array.itemsize for stride in array.strides) or not array.flags.aligned:
            array = np.array(array, order="C")
        flat = np.lib.stride_tricks.as_strided(
            array, (_span(array),), (array.itemsize,), writeable=array.flags.writeable
        )
        storage = Storage(flat.view(np.uint8), "numpy")
        return cls(spec, storage, 0, tuple(stride // array.itemsize for stride in array.strides))

    @classmethod
    def holding(cls, spec: TensorSpec, content: bytes) -> Self:
        """A tensor in memory of its own that holds `content`, its elements in row-major order.

        DeviceError where this machine has no such device.
        """
        if spec.device.is_host:
            return cls(spec, Storage.holding(content))
        tensor = cls.empty(spec)
        if spec.nbytes:
            tensor._device_storage.write(0, np.frombuffer(content, np.uint8))
        return tensor

    def clone(self) -> Tensor:
        """The elements in fresh memory, in row-major order; nothing else of the storage comes along."""
        self.check_file()
        copy = Tensor.empty(self.spec)
        copy._take(self)
        return copy

    def to(self, device: Device) -> Tensor:
        """The tensor itself where it lies there, else its elements in fresh memory of that device, in row-major order.

        Between two devices they go through the host.
        """
        if device.space == self.spec.device.space:
            return self
        if device.is_host:
            return self._downloaded()
        copy = Tensor.empty(self.spec.on(device))
        copy._take(self if self.spec.device.is_host else self._downloaded())
        return copy

    def _downloaded(self) -> Tensor:
        """The elements of a device, in host memory."""
        spec = self.spec.on(CPU)
        if not spec.elements:
            return Tensor.empty(spec)
        begin, end = self.extent
        storage = Storage(self._device_storage.read(begin - self.storage.address, end - begin))
        copy = Tensor(spec, storage, self.address - begin, self.strides)
        return copy if self.is_contiguous else copy.clone()

    def _take(self, source: Tensor) -> None:
        """Hold the elements of a tensor of this shape and type, which is here or on the host."""
        if not self.spec.elements:
            return
        if self.spec.device.is_host:
            np.copyto(self._array, source._array)
            return
        device, memory = self.spec.device, memory_of(self.spec.device)
        if self.is_contiguous and source.is_contiguous and source.spec.device == device:
            memory.copy(device, self.address, source.address, self.spec.nbytes)
            return
        begin, end = self.extent
        at = begin - self.storage.address
        array = source.to(CPU)._array
        if self.is_contiguous:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        else:
            # What lies in the gaps stays.
            content = self._device_storage.read(at, end - begin)
            whole = Tensor(self.spec.on(CPU), Storage(content), self.address - begin, self.strides)
            np.copyto(whole._array, array)
        self._device_storage.write(at, content)

    @property
    def _device_storage(self) -> DeviceStorage:
        assert isinstance(self.storage, DeviceStorage)
        return self.storage

    def __copy__(self) -> Tensor:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        return self.clone()

    def __reduce__(self) -> tuple[Callable[[TensorSpec, bytes], Tensor], tuple[TensorSpec, bytes]]:
        return Tensor.holding, (self.spec, self.to(CPU).numpy().tobytes())

    @property
    def shape(self) -> Shape:
        """Sizes, slowest axis first."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    @property
    def shares_memory(self) -> bool:
        """True when the storage belongs to an arena or to somebody else: the bytes may be reused."""
        return self.storage.label in ("arena", "numpy") or self.storage.nbytes != self.spec.nbytes

    def numpy(self) -> Array:
        """The elements as a NumPy array over the same memory (no copy). DeviceError for those of a device."""
        if not self.spec.device.is_host:
            raise self._elsewhere("numpy")
        self.check_file()
        return self._array

    def check_file(self) -> None:
        """FormatError where it lies in a file that was shortened since it was mapped: to touch it would end all."""
        if self.storage.file is not None:
            self.storage.file.check()

    def reshape(self, shape: Iterable[int]) -> Tensor:
        """The same elements under another shape; the tensor must be contiguous."""
        target = TensorSpec(check_shape(shape, "reshape"), self.dtype, self.spec.layout, self.spec.device)
        if target.elements != self.spec.elements or not self.is_contiguous:
            got = f"{self.spec} to {list(target.shape)}"
            raise ShapeError("reshape", got=got, need="equal counts, contiguous memory")
        return Tensor(target, self.storage, self.offset)

    def view(self, spec: TensorSpec, offset: int, strides: Shape) -> Tensor:
        """A strided view: `offset` and `strides` in elements, relative to this tensor's first element."""
        if spec.dtype is not self.dtype:
            raise DTypeError("view", got=f"{spec.dtype} over {self.dtype}", need="one element type")
        return Tensor(spec, self.storage, self.offset + index(offset) * self.dtype.itemsize, strides)

    @property
    def extent(self) -> tuple[int, int]:
        """The addresses of its first byte and of the one behind its last, whatever gaps are between."""
        if self.is_contiguous:
            return self.address, self.address + self.spec.nbytes
        low, high = np.lib.array_utils.byte_bounds(self._addresses)
        return int(low), int(high)

    @property
    def _addresses(self) -> Array:
        """The elements as NumPy's, whose bytes nobody asks for: those of a device lie at no such address here."""
        if self.spec.device.is_host:
            return self._array
        size = self.spec.dtype.itemsize
        return np.asarray(_Addresses(self.address, self.shape, tuple(step * size for step in self.strides), size))

    def _elsewhere(self, subject: str) -> DeviceError:
        return DeviceError(subject, got=str(self.spec), need="elements of the host", fix="copy them: x.to('cpu')")

    def overlaps(self, other: Tensor) -> bool:
        """Whether the two have a byte in common."""
        if not (self.spec.elements and other.spec.elements) or self.spec.device != other.spec.device:
            return False
        (begin, end), (first, last) = self.extent, other.extent
        if end <= first or last <= begin:
            return False
        if self.is_contiguous and other.is_contiguous:
            return True
        try:
            return bool(np.shares_memory(self._addresses, other._addresses, max_work=OVERLAP_WORK))  # type: ignore[arg-type]  # the stub knows the two special values alone
        except np.exceptions.TooHardError:
            return True

    def is_same_memory(self, other: Tensor) -> bool:
        """Whether the two have the same bytes in the same order."""
        mine, theirs = (self.address, self.spec.nbytes), (other.address, other.spec.nbytes)
        if mine != theirs or self.spec.device != other.spec.device:
            return False
        same_steps = (self.shape, self.strides) == (other.shape, other.strides)
        return same_steps or (self.is_contiguous and other.is_contiguous)

    @frequent
    def copy_from(self, value: ArrayLike) -> None:
        """Write `value` (same shape after broadcasting) into this tensor's memory.

        Never floats into integers, nor integers that the element type cannot hold: DTypeError, and nothing is written.
        From and to other devices through the host, but for equal ones.
        """
        if not self.spec.device.is_host:
            self._copy_here(value)
            return
        if isinstance(value, Tensor):
            value = value.to(CPU).numpy()
        source, own = as_array(value), self._array
        if source.dtype == own.dtype and source.shape == own.shape and own.flags.writeable:
            # Nothing to convert, so nothing that could go wrong: the way of most batches.
            np.copyto(own, source)
            return
        if not own.flags.writeable:
            raise UsageError("copy_from", got=f"{self.spec} in read-only memory", need="memory that may be written")
        if source.shape != self.shape and broadcast_shapes("copy_from", source.shape, self.shape) != self.shape:
            raise ShapeError("copy_from", got=f"{list(source.shape)} into {self.spec}", need="sizes equal or 1")
        given = dtype_of(source.dtype)
        if given.kind == "complex" != self.dtype.kind:
            raise DTypeError("copy_from", got=f"{given} into {self.spec}", need="real numbers", fix="take real() first")
        if given.is_float and not self.dtype.is_continuous:
            got = f"{source.dtype} into {self.spec}"
            raise DTypeError("copy_from", got=got, need="whole numbers", fix="round first")
        check_values("copy_from", source, self.dtype)
        with np.errstate(all="ignore"):
            np.copyto(own, source, casting="unsafe")

    def _copy_here(self, value: ArrayLike | Tensor) -> None:
        """`copy_from` on a device."""
        if isinstance(value, Tensor) and (value.shape, value.dtype) == (self.shape, self.dtype):
            self._take(value)
            return
        if isinstance(value, np.ndarray) and self._is_as_held(value):
            # The way of most batches: from where it lies.
            if self.spec.elements:
                self._device_storage.write(self.address - self.storage.address, value.reshape(-1).view(np.uint8))
            return
        made = Tensor.empty(self.spec.on(CPU))
        made.copy_from(value)
        self._take(made)

    def _is_as_held(self, value: Array) -> bool:
        """Whether an array's bytes are those that this tensor would hold."""
        alike = value.dtype == self.spec.dtype.numpy and value.shape == self.spec.shape
        return alike and self.is_contiguous and value.flags.c_contiguous

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule over the same memory; BufferError for element types that DLPack's NumPy side lacks.

        Of a device behind all that was queued there, for those who name a stream, as readers of such memory do
        (-1: none of theirs waits); for the host (`dl_device=(1, 0)`) a copy.
        """
        if not self.spec.device.is_host:
            if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
                if tuple(dl_device) != HOST_NUMBER or copy is False:
                    raise BufferError(f"{self.spec} for device {dl_device}; need {self.__dlpack_device__()}")
                return self.to(CPU).__dlpack__(max_version=max_version)
            if stream is None:
                # NumPy takes whatever it is given, and looks where it is only then.
                raise BufferError(f"got {self.spec}; need a reader of such memory, which names a stream. Fix: x.cpu()")
            given = self.clone() if copy else self
            return capsule_of(given.spec, given.address, given.strides, given.storage)
        return self.numpy().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)  # type: ignore[misc]  # the stub leaves bool and bfloat16 out

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (kind, number) of the device: (1, 0) is the CPU."""
        if not self.spec.device.is_host:
            return number_of(self.spec.device)
        kind, number = self._array.__dlpack_device__()
        return int(kind), int(number)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return fitted(f"Tensor({self.spec}{', shared storage' if self.shares_memory else ''})\n{self.to(CPU)._array}")

    def _repr_html_(self) -> str:
        return preformatted(repr(self))


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Where elements lie, as NumPy asks for it, which looks at none of them."""

    address: int
    shape: Shape
    strides: Shape
    size: int

    @property
    def __array_interface__(self) -> dict[str, object]:
        """Bytes without a meaning."""
        return {
            "version": 3, "typestr": f"|V{self.size}", "shape": self.shape, "strides": self.strides,
            "data": (self.address, False),
        }  # fmt: skip


def as_array(value: ArrayLike) -> Array:
    """`value` as a NumPy array; ShapeError for rows of different lengths, DTypeError for what is no number."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError("tensor", got="rows of different lengths", need="one size per axis") from None
    except TypeError as error:
        raise DTypeError("tensor", got=str(error), need="numbers") from None
    if array.dtype == np.float64 and isinstance(value, list | tuple) and (array >= BEYOND_I64).any():
        # NumPy makes floats of integers beyond i64 where smaller ones stand beside them.
        exact = np.asarray(value, object)
        if all(isinstance(entry, int) and 0 <= entry <= U64_MOST for entry in exact.flat):
            return exact.astype(np.uint64)
    return array


def _span(array: Array) -> int:
    """Elements from the first to the last that `array` touches, for non-negative strides."""
    steps = zip(array.shape, array.strides, strict=True)
    return int(array.size and 1 + sum((size - 1) * (stride // array.itemsize) for size, stride in steps))
