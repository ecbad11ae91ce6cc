from __future__ import annotations

import gc

import numpy as np

from nnc.core.values.pool import Pool
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor


def test_of_equal_pieces_the_last_given_back_is_taken_first() -> None:
    pool = Pool()
    kept = [pool.allocate(512) for _ in range(3)]
    addresses = [storage.address for storage in kept]
    assert len(set(addresses)) == 3
    assert all(address % 64 == 0 for address in addresses)
    del kept[0]
    del kept[1]
    assert pool.waiting == 1024
    assert pool.allocate(512).address == addresses[2]


def test_the_smallest_piece_that_is_large_enough() -> None:
    pool = Pool()
    large, small = pool.allocate(1024), pool.allocate(640)
    places = large.address, small.address
    del large, small
    fitting = pool.allocate(600)
    assert (fitting.address, fitting.nbytes) == (places[1], 600)
    assert pool.allocate(400).address not in places  # more than twice of it would lie idle
    assert pool.allocate(513).address == places[0]


def test_an_array_over_a_tensor_keeps_the_piece() -> None:
    pool = Pool()
    tensor = Tensor.empty(spec((16,)), pool=pool)
    array, part = tensor.numpy(), tensor.view(spec((4,)), 2, (1,)).numpy()
    array[...] = 7.0
    del tensor
    assert pool.waiting == 0
    del array
    gc.collect()
    assert pool.waiting == 0
    np.testing.assert_array_equal(part, 7.0)
    del part
    assert pool.waiting == 64


def test_more_than_is_to_be_kept_goes_back_to_the_system() -> None:
    pool = Pool(kept=1000)
    first, second = pool.allocate(640), pool.allocate(640)
    del first
    assert pool.waiting == 640
    del second
    assert pool.waiting == 0


def test_pieces_outlive_their_pool() -> None:
    storage = Pool().allocate(64)
    storage.bytes[...] = 1
    gc.collect()
    assert storage.bytes.sum() == 64
