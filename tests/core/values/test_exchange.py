"""Zero-copy exchange, mapped files, and distances in units of the last place."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from nnc.core.values.exchange import from_dlpack, map_file, ulp_distance
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import DTypeError, FormatError, ShapeError


def test_dlpack_shares_memory_both_ways() -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = from_dlpack(source)
    back = np.from_dlpack(tensor)
    assert tensor.address == source.ctypes.data == back.ctypes.data
    assert tensor.__dlpack_device__() == (1, 0)


def test_dlpack_keeps_strides_and_empty_shapes() -> None:
    assert np.array_equal(
        from_dlpack(np.arange(12, dtype=np.int64).reshape(3, 4)[:, ::2]).numpy(), [[0, 2], [4, 6], [8, 10]]
    )
    assert from_dlpack(np.empty((0, 3), np.float32)).shape == (0, 3)


def test_dlpack_accepts_version_device_and_copy() -> None:
    tensor = Tensor.from_numpy(np.arange(3, dtype=np.float32))
    # Up to NumPy 2.2 the copy may only be read.
    copied = np.from_dlpack(tensor, copy=True)
    assert np.array_equal(copied, tensor.numpy())
    assert not np.shares_memory(copied, tensor.numpy())
    assert tensor.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False) is not None


def test_dlpack_refuses_what_numpy_cannot_say() -> None:
    with pytest.raises(DTypeError, match="from_dlpack"):
        from_dlpack(Tensor.from_numpy(np.zeros(2, np.float32), "bf16"))


def test_a_sparse_file_beyond_2_to_31_elements(tmp_path: Path) -> None:
    count = 2**31 + 8
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        os.truncate(file.fileno(), count)
    tensor = map_file(path, spec((count,), "u8"), writable=True)
    tensor.numpy()[-1] = 9
    view = tensor.view(spec((4,), "u8"), count - 4, (1,))
    assert view.numpy().tolist() == [0, 0, 0, 9]


def test_a_mapped_file_must_hold_the_tensor(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"1234")
    with pytest.raises(ShapeError, match="inside the file"):
        map_file(path, spec((2,)))
    with pytest.raises(FormatError, match="no such file"):
        map_file(tmp_path / "absent", spec((1,)))


def test_ulp_distance_counts_representable_numbers() -> None:
    one = np.float32([1.0, -0.0, np.nan, 1.0, -1.0])
    other = np.float32([np.nextafter(np.float32(1), np.float32(0)), 0.0, np.nan, np.nan, 1.0])
    distance = ulp_distance(one, other)
    assert distance[:3].tolist() == [1, 0, 0]
    assert distance[3] == np.iinfo(np.int64).max
    assert distance[4] == 2 * 0x3F800000
    with pytest.raises(ShapeError, match=r"ulp_distance: got float32\[5\], float64\[5\]; need equal shapes and types"):
        ulp_distance(one, other.astype(np.float64))
