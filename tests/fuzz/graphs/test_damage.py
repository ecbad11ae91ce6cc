"""The verifiers find what is damaged on purpose, and each kind of damage comes up."""

from __future__ import annotations

import random
from collections import Counter

from tests.fuzz.graphs.campaign import case_of_seed
from tests.fuzz.graphs.checks import short_search
from tests.fuzz.graphs.plans import check_damaged


def test_damage_is_found() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        case = case_of_seed(seed)
        with short_search():
            check_damaged(case, random.Random(seed))
        seen.update(case.outcomes)
    kinds = "moved onto another", "moved beside others", "too small", "room behind it", "bytes lost", "bytes kept"
    assert min(seen[kind] for kind in (*kinds, "inside another")) > 12
