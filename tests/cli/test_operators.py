"""nnc ops: the registry as a list."""

from __future__ import annotations

import json

import pytest

from nnc.cli.operators import EXAMPLES, describe
from nnc.ops import OPERATORS


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_operator_can_be_described(op) -> None:
    found = describe(op)
    assert found.meaning
    assert found.outputs
    assert found.backends is None or "reference" in found.backends


def test_examples_are_of_known_operators_and_tell_all() -> None:
    assert EXAMPLES.keys() <= set(OPERATORS)
    assert all(describe(op).backends for op in EXAMPLES)


def test_json_lists_all(shell) -> None:
    ran = shell("ops", "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = {row["name"]: row for row in json.loads(ran.out)["operators"]}
    assert list(rows) == [op.name for op in OPERATORS]
    assert rows["gemm"]["inputs"] == ["a", "b", "bias"]
    assert rows["concatenate"]["inputs"] == ["…"]
    assert rows["relu"]["inplace"] == [["x", "y"]]
    assert (rows["relu"]["differentiable"], rows["relu"]["reason"]) == (True, "")
    assert not rows["argmax"]["differentiable"]
    assert rows["argmax"]["reason"]
    assert rows["reduce_sum"]["pattern"] == "reduction"


def test_people_read_the_same_facts(call) -> None:
    ran = call("ops")
    assert (ran.code, ran.err) == (0, "")
    first_words = {line.split()[0] for line in ran.out.splitlines() if line.strip()}
    assert {op.name for op in OPERATORS} <= first_words
