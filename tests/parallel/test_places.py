from __future__ import annotations

import pytest

from nnc.parallel.communicator import world
from nnc.parallel.places import alone_beside, rank_in


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"PMI_RANK": "3"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "0"}, 0),
        ({"PMIX_RANK": "1"}, 1),
        ({"PMI_RANK": "what"}, None),
    ],
)
def test_the_rank_is_what_the_launcher_says(environment: dict[str, str], rank: int | None) -> None:
    assert rank_in(environment) == rank


def test_tasks_of_srun_that_do_not_know_of_each_other_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"}
    assert alone_beside(step) == 3
    assert alone_beside(step | {"PMI_RANK": "1"}) == alone_beside({"SLURM_NTASKS": "4"}) == alone_beside({}) == 0
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    with pytest.warns(RuntimeWarning, match="srun started 3 tasks beside this one"):
        assert world.__wrapped__().size == 1
