from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.parallel.conftest import Launched

import nnc
from nnc.errors import ArgumentError, ShapeError, UsageError
from nnc.parallel import world


def test_every_operation_gives_what_numpy_makes_of_all_inputs_in_the_order_of_ranks(of_three: Path) -> None:
    """The ranks compared: `programs/collectives.py`, whose last line the launch has."""
    assert of_three.is_dir()


def test_ranks_that_do_something_else_are_named(launched: Launched) -> None:
    kinds = ("other rows", "other program", "other number", "another number later", "other shape", "other operation")
    kinds += ("sends other tag", "sends other shape", "late")
    result = launched(2, "failing.py", *kinds)
    assert result.returncode != 0
    for message in (
        "the program: got 'tanh' on rank 0, 'exp' on rank 1",
        "affine(scale=3.0) <- %2' on rank 0, '%3: f32[2] = affine(scale=4.0) <- %2' on rank 1",
        "got allreduce of float64[4] (operation 1) on rank 0, allreduce of float64[5] (operation 1) on rank 1",
        "got allreduce of float64[4] (operation 1) on rank 0, all_gather of float64[4] (operation 1) on rank 1",
        "got float64[4] with tag 3 from rank 0, receive of float64[4] with tag 0 from rank 0 (message 1) on rank 1",
        "got float64[5] with tag 0 from rank 0, receive of float64[4] with tag 0",
        "rank 0 waiting 1 s in allreduce for rank 1",
    ):
        assert message in result.stderr


def test_a_process_that_nobody_launched_is_a_world_of_one() -> None:
    ranks, x = world(), np.arange(6.0).reshape(2, 3)
    assert (ranks.rank, ranks.size) == (0, 1)
    for result in (
        ranks.allreduce(x), ranks.allreduce(x, "mean"), ranks.reduce_scatter(x), ranks.all_gather(x),
        ranks.all_to_all(x), ranks.broadcast(x), ranks.reduce(x), ranks.shift(x),
    ):  # fmt: skip
        assert np.array_equal(result, x)
        assert not np.shares_memory(result, x)
    for given in ([1.0, 2.0], (1, 2), nnc.variable([1.0, 2.0])):
        for operation in (ranks.allreduce, ranks.reduce_scatter, ranks.all_gather, ranks.broadcast, ranks.shift):
            assert operation(given).tolist() == [1, 2]
    ranks.agree("anything", "text")
    ranks.barrier()
    assert ranks.any(asked=True)


def test_a_copy_is_the_same_place_among_the_ranks_and_no_other_process_can_have_it() -> None:
    ranks = world()
    assert copy.copy(ranks) is copy.deepcopy([ranks])[0] is ranks
    with pytest.raises(UsageError, match=r"pickle: got Communicator\(world: rank 0 of 1\)"):
        pickle.dumps(ranks)


def test_what_cannot_be_done_is_refused_before_anybody_waits() -> None:
    ranks = world()
    with pytest.raises(ArgumentError, match="need one of 0 to 0"):
        ranks.broadcast(np.ones(3), 1)
    with pytest.raises(ArgumentError, match="receive: got our own rank 0; need another one"):
        ranks.receive(0)
    with pytest.raises(ArgumentError, match="the mean of int64"):
        ranks.allreduce(np.ones(3, np.int64), "mean")
    with pytest.raises(ArgumentError, match="an array of object; need numbers"):
        ranks.all_gather([object()])  # type: ignore[list-item]
    with pytest.raises(ShapeError, match="rows of different lengths"):
        ranks.shift([[1], [1, 2]])
    with pytest.raises(ShapeError, match="an axis to join"):
        ranks.all_gather(np.array(1.0))
    with pytest.raises(ArgumentError):
        ranks.allreduce(np.ones(3), "product")  # type: ignore[arg-type]
