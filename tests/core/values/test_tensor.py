"""Tensors: zero-copy with NumPy, views, bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from nnc.core.values.dtype import BF16, DTYPES, F32, F64, U8, DType
from nnc.core.values.spec import Layout, TensorSpec, spec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import DTypeError, MemoryLimitError, ShapeError, UsageError

# `Any`: arrays of any element type.
Array = NDArray[Any]


def count(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numpy_memory_is_shared_both_ways(dtype: DType) -> None:
    array = np.ones((3, 4), dtype.numpy)
    tensor = Tensor.from_numpy(array)
    assert tensor.spec == spec((3, 4), dtype)
    assert tensor.shares_memory
    assert tensor.address == array.ctypes.data
    tensor.numpy()[1, 2] = 0
    assert array[1, 2] == 0
    array[0, 0] = 0
    assert tensor.numpy()[0, 0] == 0


@pytest.mark.parametrize(
    "view",
    [
        count(6, 8)[1::2, 2:7:3],
        count(3, 4, 5).transpose(2, 0, 1),
        np.broadcast_to(count(4), (3, 4)),
        count(5)[3],
        count(3, 4)[:, :0],
    ],
    ids=["steps", "transposed", "broadcast", "scalar", "empty"],
)
def test_strided_numpy_memory_is_shared(view: Array) -> None:
    tensor = Tensor.from_numpy(view)
    np.testing.assert_array_equal(tensor.numpy(), view)
    if view.size > 1:
        assert np.shares_memory(tensor.numpy(), view)
        assert tensor.numpy().strides == view.strides


@pytest.mark.parametrize(
    "array",
    [
        count(4, 5)[::-1],
        count(6)[4:1:-2],
        count(5).astype(">f4"),
        np.frombuffer(bytes(range(17)), np.float32, 4, 1),
        np.zeros(3, [("a", "<f4"), ("b", "u1")])["a"],
    ],
    ids=["reversed", "backwards", "big-endian", "unaligned", "record"],
)
def test_memory_that_kernels_cannot_read_is_copied(array: Array) -> None:
    tensor = Tensor.from_numpy(array)
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert tensor.spec == spec(array.shape)
    assert not np.shares_memory(tensor.numpy(), array)
    assert tensor.numpy().flags.aligned
    assert all(stride >= 0 for stride in tensor.strides)


def test_lists_numbers_and_casts() -> None:
    assert Tensor.from_numpy([[1, 2], [3, 4]]).spec == spec((2, 2), "i64")
    assert Tensor.from_numpy(1.5).spec == spec((), "f64")
    narrow = Tensor.from_numpy([1.0, 2.5], "bf16", layout=Layout.NCHW)
    assert narrow.spec == TensorSpec((2,), BF16, Layout.NCHW)
    assert narrow.numpy().dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("value", [["a"], [object()], np.zeros(2, np.clongdouble), np.zeros(2, np.longdouble)])
def test_element_types_that_are_none(value: Any) -> None:  # what a caller may hand in
    with pytest.raises(DTypeError, match="dtype: got"):
        Tensor.from_numpy(value)


def test_ragged_rows_and_too_many_dimensions() -> None:
    with pytest.raises(ShapeError, match="got rows of different lengths"):
        Tensor.from_numpy([[1, 2], [3]])
    with pytest.raises(ShapeError, match="got 9 dimensions; need at most 8"):
        Tensor.from_numpy(np.zeros((1,) * 9))


def test_fresh_memory() -> None:
    tensor = Tensor.zeros(spec((3, 5)))
    assert tensor.is_contiguous
    assert not tensor.shares_memory
    assert tensor.address % 64 == 0
    assert not tensor.numpy().any()
    assert Tensor.empty(spec((2, 3), "u8"), "arena").shares_memory


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 0)])
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    for tensor in (
        Tensor.empty(spec(shape)),
        Tensor.from_numpy(np.zeros(shape, np.float32)),
        Tensor(spec(shape), Storage.allocate(8), 400, (7,) * len(shape)),
    ):
        assert tensor.numpy().shape == shape
        assert tensor.is_contiguous
        assert tensor.reshape((0, 4)).shape == (0, 4)


def test_read_only_memory_stays_read_only() -> None:
    array = count(2, 3)
    array.flags.writeable = False
    tensor = Tensor.from_numpy(array)
    assert tensor.storage.read_only
    for view in (tensor, tensor.reshape((6,)), tensor.view(spec((2,)), 1, (1,))):
        assert not view.numpy().flags.writeable
        with pytest.raises(UsageError, match="copy_from: got .* in read-only memory; need memory that may be written"):
            view.copy_from(0.0)


def test_views_count_elements_from_the_first_of_their_tensor() -> None:
    tensor = Tensor.from_numpy(count(4, 6))
    column = tensor.view(spec((4,)), 2, (6,))
    np.testing.assert_array_equal(column.numpy(), [2, 8, 14, 20])
    inner = column.view(spec((2,)), 6, (12,))
    np.testing.assert_array_equal(inner.numpy(), [8, 20])
    assert inner.storage is tensor.storage
    assert inner.shares_memory
    backwards = tensor.view(spec((3,)), 5, (-2,))
    np.testing.assert_array_equal(backwards.numpy(), [5, 3, 1])


def test_a_view_keeps_its_memory_alive() -> None:
    view = Tensor.from_numpy(count(1000)).view(spec((2,)), 998, (1,))
    np.testing.assert_array_equal(view.numpy(), [998, 999])


@pytest.mark.parametrize(
    ("shape", "offset", "strides"),
    [((4,), 21, (1,)), ((2,), 0, (24,)), ((2,), 0, (-1,)), ((1,), -1, (1,)), ((5, 6), 0, (6, 1)), ((1,), 24, (1,))],
)
def test_views_outside_their_memory(shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> None:
    tensor = Tensor.from_numpy(count(4, 6))
    with pytest.raises(ShapeError, match=r"tensor: got f32\[.*\] over bytes .*; need bytes inside its storage of 96"):
        tensor.view(spec(shape), offset, strides)


def test_a_stride_for_each_axis() -> None:
    with pytest.raises(ShapeError, match="need one stride per axis"):
        Tensor.from_numpy(count(4, 6)).view(spec((2, 2)), 0, (1,))


def test_a_view_has_the_element_type_of_its_tensor() -> None:
    with pytest.raises(DTypeError, match="view: got f64 over f32; need one element type"):
        Tensor.from_numpy(count(4)).view(spec((1,), F64), 0, (1,))


def test_reshape_shares_memory() -> None:
    tensor = Tensor.from_numpy(count(4, 6))
    flat = tensor.reshape([24])
    assert flat.storage is tensor.storage
    np.testing.assert_array_equal(flat.numpy(), np.arange(24))
    with pytest.raises(ShapeError, match="need equal counts, contiguous memory"):
        tensor.reshape((5, 5))
    with pytest.raises(ShapeError, match="need equal counts, contiguous memory"):
        tensor.view(spec((4, 2)), 0, (6, 1)).reshape((8,))


def test_copy_from_broadcasts_and_rounds() -> None:
    tensor = Tensor.zeros(spec((2, 3)))
    tensor.copy_from([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(tensor.numpy(), [[1, 2, 3]] * 2)
    small = Tensor.zeros(spec((2,), U8))
    small.copy_from([3, 255])
    np.testing.assert_array_equal(small.numpy(), [3, 255])
    narrow = Tensor.zeros(spec((2,), BF16))
    narrow.copy_from(np.array([1.00390625, -2.0]))
    np.testing.assert_array_equal(narrow.numpy().astype(np.float32), [1.0, -2.0])


def test_copy_from_what_does_not_fit() -> None:
    tensor = Tensor.zeros(spec((2, 3)))
    with pytest.raises(ShapeError, match=r"copy_from: got \[4\], \[2, 3\]"):
        tensor.copy_from(np.zeros(4))
    with pytest.raises(ShapeError, match=r"copy_from: got \[5, 2, 3\] into f32\[2, 3\]"):
        tensor.copy_from(np.zeros((5, 2, 3)))
    with pytest.raises(DTypeError, match=r"copy_from: got float64 into i32\[2\]"):
        Tensor.zeros(spec((2,), "i32")).copy_from([0.5, 1.0])


def test_the_array_protocol() -> None:
    tensor = Tensor.from_numpy(count(3))
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())
    assert not np.shares_memory(np.array(tensor), tensor.numpy())
    assert np.asarray(tensor, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.add(tensor, 1), [1, 2, 3])


def test_repr_tells_who_owns_the_memory() -> None:
    assert repr(Tensor.zeros(spec((2,)))) == "Tensor(f32[2])\n[0. 0.]"
    assert repr(Tensor.from_numpy(count(2))) == "Tensor(f32[2], shared storage)\n[0. 1.]"


def test_a_mapped_file_of_more_than_2_31_elements(tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as sparse:
        sparse.truncate(2**31 + 64)
    tensor = Tensor.from_numpy(np.memmap(file, np.uint8, "r+"))
    assert tensor.spec == spec((2**31 + 64,), U8)
    last = tensor.view(spec((2, 16), U8), 2**31 + 32, (16, 1))
    last.copy_from(7)
    assert tensor.numpy()[-1] == 7
    assert tensor.numpy()[2**31] == 0
    halves = tensor.view(spec((2, 2**30), U8), 0, (2**30, 1))
    assert halves.is_contiguous
    assert halves.reshape((2**31,)).spec.elements == 2**31


def test_a_tensor_larger_than_the_machine() -> None:
    with pytest.raises(MemoryLimitError, match="need memory that this machine has"):
        Tensor.empty(TensorSpec((2**40, 2**20), F32))


def resident_bytes() -> int:
    """Memory of this process that no file is behind; 0 where the system does not say."""
    place = Path("/proc/self/status")
    rows = place.read_text().splitlines() if place.exists() else []
    return next((int(row.split()[1]) * 1024 for row in rows if row.startswith("RssAnon")), 0)


def test_fresh_zeros_take_memory_where_they_are_written() -> None:
    before = resident_bytes()
    tensor = Tensor.fresh_zeros(TensorSpec((16, 1 << 20), F32))
    assert tensor.is_contiguous
    assert not tensor.numpy()[0, :1000].any()
    tensor.numpy()[3, :1000] = 1
    # Pages may be large ones of 2 MB; all of it is 64 MB.
    assert resident_bytes() - before < 16 << 20
    assert tensor.numpy()[3].sum() == 1000
