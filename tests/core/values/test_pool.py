from __future__ import annotations

import gc
import threading

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


def test_small_and_large_pieces_are_counted_alike() -> None:
    pool = Pool(kept=1 << 20)
    kept = [pool.allocate(size) for size in (64, 100, 1 << 16, (1 << 16) + 1, 1 << 18)]
    whole = 64 + 128 + (1 << 16) + (1 << 16) + 64 + (1 << 18)
    assert (pool.lent, pool.waiting) == (whole, 0)
    del kept
    assert (pool.lent, pool.waiting) == (0, whole)
    again = [pool.allocate(100), pool.allocate(1 << 18)]
    assert pool.lent == 128 + (1 << 18)
    assert pool.waiting == whole - pool.lent
    del again
    many = [pool.allocate(1 << 15) for _ in range(40)]
    # One of them is the piece of 2^16 bytes.
    assert pool.lent == 41 << 15
    del many
    assert pool.waiting == 0


def test_many_small_pieces_go_back_to_the_system_without_a_miss() -> None:
    pool = Pool(kept=1000)
    kept = [pool.allocate(64) for _ in range(1000)]
    del kept
    for _ in range(3):
        pool.allocate(64)
    assert pool.lent == 0
    assert pool._small_waiting() <= 64


def test_threads_share_a_pool() -> None:
    pool, clashes = Pool(), []

    def work(number: int) -> None:
        for turn in range(400):
            kept = [pool.allocate(size) for size in (64, 64, 192, 1 << 17)]
            for storage in kept:
                storage.bytes[:8] = number
            if any((storage.bytes[:8] != number).any() for storage in kept):
                clashes.append(turn)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
    assert pool.lent == 0
