"""nnc ops: the registry as a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnc.cli.operators import describe
from nnc.core.running.dispatch import DISPATCHER
from nnc.ops import OPERATORS

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_operator_is_described_in_full(op) -> None:
    found = describe(op)
    assert found.meaning
    assert found.outputs
    claims = {one.backend: one for one in found.claims}
    assert claims["reference"].dtypes
    assert claims["reference"].layouts


def test_json_lists_all(shell) -> None:
    ran = shell("ops", "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = {row["name"]: row for row in json.loads(ran.out)["operators"]}
    assert list(rows) == [op.name for op in OPERATORS]
    assert "null" not in ran.out
    assert rows["gemm"]["inputs"] == ["a", "b", "bias"]
    assert rows["gemm"]["gradient_reads"] == ["a", "b"]
    assert rows["concatenate"]["inputs"] == ["…"]
    assert rows["relu"]["inplace"] == {"allowed": [["x", "y"]], "enforced": []}
    assert rows["relu"]["backends"]["reference"]["layouts"] == ["NHWC", "NCHW"]
    assert (rows["relu"]["differentiable"], rows["relu"]["reason"]) == (True, "")
    assert not rows["argmax"]["differentiable"]
    assert rows["argmax"]["reason"]
    assert rows["logical_and"]["backends"]["reference"]["dtypes"] == ["bool"]
    assert rows["reduce_sum"]["pattern"] == "reduction"


@pytest.mark.parametrize("columns", ["100", "160"])
def test_people_read_the_same_facts(call, monkeypatch, columns) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = call("ops")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= int(columns)
    first_words = {line.split()[0] for line in ran.out.splitlines() if line.strip()}
    assert {op.name for op in OPERATORS if len(op.name) <= 18} <= first_words


@pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="the page tells of the LLVM backend")
def test_the_page_is_up_to_date(call) -> None:
    assert call("ops", "--markdown").out == PAGE.read_text(encoding="utf-8")


def test_one_form_at_a_time(call) -> None:
    assert "need one of them" in call("ops", "--json", "--markdown").complaint()
