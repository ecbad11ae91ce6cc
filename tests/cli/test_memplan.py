"""nnc memplan: a file in, a plan out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnc.planning import Block, Problem, faults, read_csv, solve

HEADER = "id,lower,upper,size"
LINES = ("a,0,2,64", "b,1,3,32", "c,2,4,64")


@pytest.fixture
def file(folder: Path) -> Path:
    """Three blocks that need 96 bytes."""
    (folder / "blocks.csv").write_text("\n".join((HEADER, *LINES)) + "\n")
    return folder / "blocks.csv"


def test_json_has_what_is_asked_for(shell, file) -> None:
    ran = shell("memplan", "blocks.csv", "--json")
    assert (ran.code, ran.err) == (0, "")
    facts = json.loads(ran.out)
    assert list(facts) == ["arena_bytes", "lower_bound_bytes", "optimal", "solver", "seconds", "offsets"]
    assert (facts["arena_bytes"], facts["lower_bound_bytes"], facts["optimal"]) == (96, 96, True)
    problem = read_csv(file)
    plan = solve(problem)
    assert facts["offsets"] == list(plan.offsets)
    assert faults(problem, plan) == ()


def test_people_see_a_table_and_a_picture(call, file) -> None:
    ran = call("memplan", file)
    assert (ran.code, ran.err) == (0, "")
    assert "The 3 largest of 3 blocks" in ran.out
    assert "host: 96 B over 4 steps" in ran.out
    assert "arena 96 B, lower bound 96 B: optimal, proven" in ran.out
    picture = [line for line in ran.out.splitlines() if line.startswith("│")]
    assert {len(line) for line in picture} == {160, 121}


@pytest.mark.parametrize("solver", ["portfolio", "search", "size_first_fit"])
def test_solvers_by_name(call, file, solver: str) -> None:
    facts = json.loads(call("memplan", file, "--solver", solver, "--json").out)
    assert facts["arena_bytes"] >= facts["lower_bound_bytes"] == 96


@pytest.mark.parametrize("limit", ["0", "0.5", "inf"])
def test_time_limits(call, file, limit: str) -> None:
    assert json.loads(call("memplan", file, "--time-limit", limit, "--json").out)["arena_bytes"] >= 96


@pytest.mark.parametrize("form", [[], ["--json"]], ids=str)
def test_a_capacity_is_met_or_the_code_is_1(call, file, form: list[str]) -> None:
    assert call("memplan", file, "--capacity", "96", *form).code == 0
    ran = call("memplan", file, "--capacity", "95", *form)
    assert ran.code == 1
    assert (json.loads(ran.out)["arena_bytes"] == 96) if form else (ran.out == "")
    (line,) = ran.err.splitlines()
    assert line.startswith("nnc: plan: got 96 bytes (the optimum); need at most 95 bytes. Fix: ")


def test_optional_columns_and_empty_blocks(call, folder) -> None:
    lines = (
        "buffer,lower,upper,size,alignment,offset,memory",
        "a,0,2,60,32,,fast",
        "b,1,3,8,,64,fast",
        "c,5,5,9,,,slow",
    )
    (folder / "blocks.csv").write_text("\n".join(lines))
    facts = json.loads(call("memplan", "blocks.csv", "--json").out)
    assert facts["offsets"] == [0, 64, 0]
    assert "fast: 72 B over 3 steps" in call("memplan", "blocks.csv").out


def test_no_blocks_need_no_bytes(call, folder) -> None:
    (folder / "none.csv").write_text(HEADER)
    assert json.loads(call("memplan", "none.csv", "--json").out)["arena_bytes"] == 0
    assert call("memplan", "none.csv").code == 0


def test_many_blocks_stay_readable(call, folder) -> None:
    blocks = tuple(Block(str(i), 8 + i % 7, i, i + 5) for i in range(300))
    rows = (f"{block.name},{block.lower},{block.upper},{block.size}" for block in blocks)
    (folder / "many.csv").write_text("\n".join((HEADER, *rows)))
    ran = call("memplan", "many.csv", "--solver", "sweep_first_fit")
    assert "The 20 largest of 300 blocks" in ran.out
    assert f"arena {solve(Problem(blocks), solver='sweep_first_fit').arena_bytes} B" in ran.out


BAD_FILES = {
    "no columns": ("name\na\n", "need id, lower, upper, size"),
    "nothing": ("", "need id, lower, upper, size"),
    "a word": (f"{HEADER}\na,0,x,3\n", "blocks.csv:2"),
    "a field too few": (f"{HEADER}\na,0,1\n", "blocks.csv:2"),
    "negative size": (f"{HEADER}\na,0,1,-3\n", "need size >= 0"),
    "backward life": (f"{HEADER}\na,3,1,3\n", "need lower <= upper"),
    "no text": (b"\xff\xfe\x00", "need a CSV file in UTF-8"),
    "a field too many": (f"{HEADER}\na,0,1,3,9\n", "blocks.csv:2"),
    "a column twice": (f"{HEADER},Size\na,0,1,3,9\n", "got column size twice"),
    "steering characters": ("\x1b[31m,b\n", r"\x1b[31m"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused(call, file, case: str) -> None:
    content, words = BAD_FILES[case]
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in call("memplan", file).complaint()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.csv"], "no such file or directory"),
        (["."], "is a directory"),
        (["blocks.csv", "--solver", "magic"], "got solver 'magic'; need portfolio, "),
        (["blocks.csv", "--capacity", "-1"], "--capacity"),
        (["blocks.csv", "--time-limit", "-1"], "--time-limit"),
        (["blocks.csv", "--time-limit", "nan"], "--time-limit"),
        ([], "FILE.csv"),
    ],
    ids=str,
)
def test_bad_options_are_refused(call, file, arguments: list[str], words: str) -> None:
    assert words in call("memplan", *arguments).complaint()
