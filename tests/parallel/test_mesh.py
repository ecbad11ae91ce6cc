from __future__ import annotations

import copy
import pickle

import pytest

from nnc.errors import ArgumentError, UsageError
from nnc.parallel import Mesh, RankGroup, everyone, joined


def test_neighbours_in_the_last_axis_are_neighbours_in_number() -> None:
    mesh = Mesh(data=2, tensor=2, pipe=2)
    assert mesh.size == 8
    assert [mesh.place(rank) for rank in (0, 1, 2, 5)] == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 1)]


def test_groups_are_values() -> None:
    group = Mesh(data=4).group("data")
    assert group == pickle.loads(pickle.dumps(group)) == copy.deepcopy(group)
    assert str(group) == "data[4]"


def test_the_group_of_everyone_is_the_world() -> None:
    assert everyone() == RankGroup(1)
    assert joined(everyone()).size == 1


def test_a_mesh_of_another_size_than_the_launch_is_refused() -> None:
    with pytest.raises(UsageError, match=r"group data\[4\]: got 1 ranks; need 4. Fix: nnc launch -n 4"):
        joined(Mesh(data=4).group("data"))
    with pytest.raises(ArgumentError):
        Mesh(data=0)
