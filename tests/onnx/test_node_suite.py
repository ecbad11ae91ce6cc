"""The node tests of ONNX that pass go on passing; `passed.txt` may only grow.

Natively, an eighth each on the reference backend and without passes; in the whole suite the shards that run natively
take turns. The whole list runs with `nnc onnx-coverage`, `--backend reference` and `--no-passes`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nnc.onnx.coverage import PASSED, UNFAIR, WRONG, Outcome, cases, outcome, page, totals
from nnc.onnx.made.making import PASSES
from nnc.symbolic.passes import Pass

GOLDEN = Path(__file__).with_name("passed.txt").read_text(encoding="utf-8").split()
PAGE = Path(__file__).parents[2] / "docs" / "onnx-operators.md"
SHARDS = 16


WAYS: dict[str, tuple[str, tuple[Pass, ...], range]] = {
    "llvm": ("llvm", PASSES, range(SHARDS)),
    "reference": ("reference", PASSES, range(0, SHARDS, 8)),
    "without passes": ("reference", (), range(2, SHARDS, 8)),
}


SHARDS_BY_WAY = [
    pytest.param(way, shard, marks=pytest.mark.turns(3 if way == "llvm" else 1))
    for way, (*_, shards) in WAYS.items()
    for shard in shards
]


@pytest.mark.parametrize(("way", "shard"), SHARDS_BY_WAY)
def test_what_passed_passes(way: str, shard: int) -> None:
    known, (backend, passes, _) = cases(), WAYS[way]
    names = [name for name in GOLDEN[shard::SHARDS] if name in known]
    results = {name: outcome(known[name], backend, passes) for name in names}
    assert {name: result for name, result in results.items() if result.kind != PASSED} == {}


def test_the_rest_is_refused_and_never_wrong_and_the_page_says_why() -> None:
    """Of what passes, the shards tell."""
    rest = {name: outcome(case, "reference") for name, case in cases().items() if name not in set(GOLDEN)}
    wrong = {name: one for name, one in rest.items() if one.kind == WRONG and name not in UNFAIR}
    assert wrong == {}
    found = {name: rest.get(name, Outcome(PASSED)) for name in cases()}
    assert totals(found)["total"] == len(cases())
    assert PAGE.read_text(encoding="utf-8") == page(found), (
        "scripts/nnc onnx-coverage --markdown > docs/onnx-operators.md"
    )


def test_at_least_95_of_100_node_tests_pass() -> None:
    known = cases()
    assert len([name for name in GOLDEN if name in known]) >= 0.95 * len(known)
