"""nnc viz: a page in a file."""

from __future__ import annotations

import json


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
