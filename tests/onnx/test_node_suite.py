"""The node tests of ONNX that pass go on passing, on both backends; `passed.txt` may only grow."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.onnx.node_suite import PASSED, WRONG, cases, outcome

GOLDEN = Path(__file__).with_name("passed.txt").read_text(encoding="utf-8").split()
SHARDS = 16
# The suite expects the rounding noise of a transform, and compares sequences that its own runner cannot.
ROUNDED = {
    "test_dft_inverse",
    "test_dft_inverse_opset19",
    "test_loop16_seq_none",
}


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("shard", range(SHARDS))
def test_what_passed_passes(shard: int, backend: str) -> None:
    known = cases()
    names = [name for name in GOLDEN[shard::SHARDS] if name in known]
    results = {name: outcome(known[name], backend) for name in names}
    assert {name: result for name, result in results.items() if result != PASSED} == {}


def test_the_rest_is_refused_and_never_wrong() -> None:
    rest = [case for name, case in cases().items() if name not in set(GOLDEN) | ROUNDED]
    results = {case.name: outcome(case, "reference") for case in rest}
    assert {name: result for name, result in results.items() if result.startswith(WRONG)} == {}


def test_at_least_95_of_100_node_tests_pass() -> None:
    known = cases()
    assert len([name for name in GOLDEN if name in known]) >= 0.95 * len(known)
