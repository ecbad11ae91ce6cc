"""With and without NumPy: the package imports bare, and both ways of placing very many blocks agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import nnc.planning
from nnc.errors import PlanningError
from nnc.planning import arrays
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers import greedy
from nnc.planning.solvers.normalize import conflicts

BARE = """
import sys, types
sys.modules["numpy"] = None
package = types.ModuleType("nnc")
package.__path__ = [sys.argv[1]]
sys.modules["nnc"] = package
from nnc.planning import Block, Problem, faults, solve
problem = Problem(tuple(Block(str(i), 4, i, i + 3) for i in range(7000)))
plan = solve(problem)
assert faults(problem, plan) == () and plan.optimal
allowed = {"nnc", "nnc.classes", "nnc.errors", "nnc.faces", "nnc.addresses"}
below = ("nnc.arguments", "nnc.planning", "nnc.vocabulary")
assert all(name in allowed or name.startswith(below) for name in sys.modules if name.startswith("nnc"))
print(plan.arena_bytes)
"""


def test_the_package_works_where_numpy_is_absent() -> None:
    root = Path(nnc.planning.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", BARE, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "12"


@pytest.mark.skipif(not arrays.AVAILABLE, reason="NumPy is not installed")
def test_arrays_place_as_lists_do() -> None:
    draw = Random(5)
    for count in (1, 2, 50, 300):
        lower = [draw.randrange(count) for _ in range(count)]
        upper = [moment + draw.randrange(1, 9) for moment in lower]
        size = [draw.randrange(1, 50) for _ in range(count)]
        instance = Instance(lower, upper, size, [1] * count)
        order = greedy.by_size(instance)
        with_lists = greedy.place(instance, order, conflicts(instance), Effort(), tightest=False)
        assert arrays.first_fit_in_arrays(instance, order, None) == with_lists


@pytest.mark.skipif(not arrays.AVAILABLE, reason="NumPy is not installed")
def test_arrays_take_pinned_blocks_and_companions() -> None:
    draw = Random(6)
    for count in (10, 60, 200):
        lower = [2 * i + draw.randrange(9) for i in range(count)]
        upper = [moment + draw.randrange(1, 9) for moment in lower]
        size = [draw.randrange(1, 50) for _ in range(count)]
        groups = tuple((i, i + count // 2) for i in range(2, count // 2 - 1, 3) if upper[i] <= lower[i + count // 2])
        instance = Instance(lower, upper, size, [1] * count, pinned={0: 20, count - 1: 7}, groups=groups)
        order = greedy.by_size(instance)
        with_lists = greedy.place(instance, order, conflicts(instance), Effort(), tightest=False)
        assert arrays.first_fit_in_arrays(instance, order, None) == with_lists


@pytest.mark.skipif(not arrays.AVAILABLE, reason="NumPy is not installed")
def test_arrays_refuse_pinned_blocks_on_the_same_bytes() -> None:
    with pytest.raises(PlanningError):
        arrays.first_fit_in_arrays(Instance([0, 1], [2, 3], [8, 8], [1, 1], pinned={0: 0, 1: 4}), [0, 1], None)


@pytest.mark.skipif(not arrays.AVAILABLE, reason="NumPy is not installed")
def test_arrays_stop_at_the_deadline() -> None:
    assert arrays.first_fit_in_arrays(Instance([0], [1], [1], [1]), [0], deadline=0.0) is None
