"""Text made safe, JSON that is valid."""

from __future__ import annotations

import json
import math

import pytest

from nnc.cli.terminal import add_row, complain, output, plain, table, write_json


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("déjà vu 例 █", "déjà vu 例 █"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("one\r\ntwo", r"one\r\ntwo"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\udcff", r"\udcff"),
    ],
)
def test_plain_keeps_what_can_be_seen(text: str, safe: str) -> None:
    assert plain(text) == safe


def test_json_is_valid_for_every_number(capsys) -> None:
    write_json({"loss": math.nan, "losses": [1.5, math.inf, {"x": -math.inf}], "name": "\udcff\x1b", "seed": 2**63})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"loss": None, "losses": [1.5, None, {"x": None}], "name": "\udcff\x1b", "seed": 2**63}


def test_a_complaint_goes_to_standard_error(capsys) -> None:
    complain("two\nlines")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "nnc: two\\nlines\n")


def test_a_cell_of_ten_megabytes_is_cut(capsys) -> None:
    rows = table("names", "name")
    add_row(rows, "y" * 10_000_000)
    output().print(rows)
    assert 500 < len(capsys.readouterr().out) < 5_000


def test_cells_are_no_markup(capsys) -> None:
    rows = table("Title [red]", "name", "size", numbers=("size",))
    add_row(rows, "[bold]x[/bold] :smile: \x1b[1m", "1")
    output().print(rows)
    shown = capsys.readouterr().out
    assert r"[bold]x[/bold] :smile: \x1b[1m" in shown
    assert "Title [red]" in shown
