from __future__ import annotations

import pytest

from nnc.parallel.places import rank_in


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
