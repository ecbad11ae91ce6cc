"""nnc viz: a page in a file."""

from __future__ import annotations

import json
import re

import pytest

from nnc.planning.pictures import WRITERS


def test_a_problem_becomes_a_page(call, folder) -> None:
    (folder / "blocks.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,32\n")
    ran = call("viz", "blocks.csv", "--json")
    assert (ran.code, ran.err) == (0, "")
    facts = json.loads(ran.out)
    assert facts["file"] == "blocks.html"
    assert len((folder / "blocks.html").read_bytes()) == facts["bytes"]


def test_a_step_of_a_network_becomes_a_page(call, folder) -> None:
    ran = call("viz", "digits", "--kind", "predict", "--batch", "4", "-o", "map.html", "--backend", "reference")
    assert (ran.code, ran.err) == (0, "")
    assert "digits, predict, batch 4" in (folder / "map.html").read_text()


def test_what_cannot_be_drawn_is_refused(call) -> None:
    ran = call("viz", "no_such_network")
    assert ran.code == 2
    assert "viz: got no_such_network; need FILE.onnx, FILE.csv or one of digits" in ran.err
    assert "--kind: got 'fly'; need one of train, evaluate, predict" in call("viz", "digits", "--kind", "fly").err


@pytest.mark.parametrize("suffix", sorted(WRITERS))
def test_the_suffix_says_what_is_written(call, folder, suffix: str) -> None:
    (folder / "blocks.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,32\n")
    assert call("viz", "blocks.csv", "-o", f"out{suffix}").code == 0
    assert (folder / f"out{suffix}").stat().st_size > 20
    assert "need a file that ends with .html or" in call("viz", "blocks.csv", "-o", "out.pdf").err


def test_a_page_has_the_plan_before_a_limit_passes_and_a_timeline(call, folder) -> None:
    ran = call("viz", "digits", "--batch", "8", "--limit", "215kB", "--profile", "-o", "map.html")
    assert (ran.code, ran.err) == (0, "")
    text = (folder / "map.html").read_text()
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert [one["title"] for one in data["maps"]] == ["without the limit", "with it"]
    assert any(step[2] for step in data["maps"][1]["steps"])
    assert not any(step[2] for step in data["maps"][0]["steps"])
    names = [name for name, _ in data["stages"]]
    assert (names[0], names[-1]) == ("as built", "compiled")
    assert any(fired for _, fired in data["stages"])
    assert {"thread 0", "worker 0"} <= set(data["lanes"])
    moments = {step[0] for step in data["maps"][1]["steps"]}
    assert {bar[4] for bar in data["bars"]} <= moments
    assert len({bar[4] for bar in data["bars"]}) == len(moments)


@pytest.mark.parametrize(
    "words",
    [
        ("viz", "resnet152", "-o"),
        ("plan", "absent.onnx", "--html"),
        ("train", "digits", "--profile"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(call, folder, words) -> None:
    (folder / "taken.html").mkdir()
    assert "missing/map.html: got no such file or directory" in call(*words, "missing/map.html").complaint()
    assert "taken.html: got a folder" in call(*words, "taken.html").complaint()
    assert [path.name for path in folder.iterdir()] == ["taken.html"]


@pytest.mark.parametrize("content", [b"", b"text", bytes(range(256)), b"id,lower,upper,size\na,0,1,nan\n"])
@pytest.mark.parametrize("name", ["model.onnx", "blocks.csv", "notes.txt", "folder.csv"])
def test_what_is_no_model_and_no_problem_is_a_line_and_no_file(call, folder, name: str, content: bytes) -> None:
    (folder / "folder.csv").mkdir()
    if name != "folder.csv":
        (folder / name).write_bytes(content)
    call("viz", name).complaint()
    assert {path.name for path in folder.iterdir()} == {name, "folder.csv"}


@pytest.mark.parametrize("rows", ["", "a,0,0,64\n", "a,0,1,0\n", "a,0,1,64\n"])
@pytest.mark.parametrize("suffix", [".html", *sorted(WRITERS)])
def test_plans_of_nothing_and_of_one_block_are_drawn(call, folder, rows: str, suffix: str) -> None:
    (folder / "blocks.csv").write_text(f"id,lower,upper,size\n{rows}")
    assert call("viz", "blocks.csv", "-o", f"out{suffix}").code == 0
