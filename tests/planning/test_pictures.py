"""Pictures of a plan: each format holds the blocks, and names stay text."""

from __future__ import annotations

import csv
import io
import json
import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
from tests.trace_format import trace_faults

from nnc.planning import Block, BlockText, MapView, Problem, StepText, solve
from nnc.planning.pictures import HEIGHT, WIDTH, WRITERS, text_map

EVIL = '</title><script>alert(1)</script>\u202e\x00"'
PROBLEM = Problem((Block("a", 64, 0, 2), Block("b", 32, 1, 3), Block("c", 64, 2, 4)))
TEXTS = (BlockText(EVIL, "first", "gemm"), BlockText("b", "second"), BlockText("c", "first"))
VIEW = MapView(PROBLEM, solve(PROBLEM), EVIL, TEXTS, (StepText(0, "one"), StepText(2, "two", again=True)))


def test_a_drawing_is_xml_in_which_names_are_text() -> None:
    root = ElementTree.fromstring(WRITERS[".svg"](VIEW))
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names == {"svg", "rect", "title", "path", "text"}
    titles = [element.text or "" for element in root.iter() if element.tag.endswith("title")]
    assert len(titles) == 3
    assert "<script>" in titles[0]
    assert "\u202e" not in titles[0]


def test_pixels_are_those_of_the_blocks() -> None:
    content = WRITERS[".png"](VIEW)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    wide, high = struct.unpack(">II", content[16:24])
    begin = content.index(b"IDAT")
    (size,) = struct.unpack(">I", content[begin - 4 : begin])
    rows = zlib.decompress(content[begin + 4 : begin + 4 + size])
    pixels = np.frombuffer(rows, np.uint8).reshape(high, 1 + 3 * wide)[:, 1:].reshape(high, wide, 3)
    assert (wide, high) == (WIDTH, HEIGHT)
    offset = VIEW.plan.offsets[0]
    inside = HEIGHT - (offset + 32) * HEIGHT // 96
    used = np.any(pixels != 244, axis=2)
    assert used[inside, 10]
    assert abs(used.mean() - (64 * 2 + 32 * 2 + 64 * 2) / (96 * 4)) < 0.02


def test_lines_hold_the_problem_and_the_plan() -> None:
    rows = list(csv.DictReader(io.StringIO(WRITERS[".csv"](VIEW).decode())))
    assert [(row["lower"], row["upper"], row["size"]) for row in rows] == [
        ("0", "2", "64"),
        ("1", "3", "32"),
        ("2", "4", "64"),
    ]
    assert [int(row["address"]) for row in rows] == list(VIEW.plan.offsets)
    assert rows[0]["layer"] == "first"


def test_a_trace_has_steps_blocks_and_the_bytes_in_use() -> None:
    events = json.loads(WRITERS[".json"](VIEW))["traceEvents"]
    assert [one["name"] for one in events if one["ph"] == "X" and one["tid"] == 0] == ["one", "two"]
    assert [one["args"]["bytes"] for one in events if one["ph"] == "C"] == [64, 96, 96, 64, 0]
    lanes: dict[int, int] = {}
    for one in (one for one in events if one["ph"] == "X" and one["tid"]):
        assert lanes.get(one["tid"], 0) <= one["ts"]
        lanes[one["tid"]] = one["ts"] + one["dur"]


@pytest.mark.parametrize("width", [1, 2, 7, 40, 200])
def test_text_is_as_wide_as_asked(width: int) -> None:
    head, *lines = text_map(PROBLEM, VIEW.plan, "host", width, 6, "#")
    assert head == "host: 96 B over 4 steps"
    assert len(lines) == 7
    assert max(map(len, lines[:-1])) <= max(width, 2)
    assert "^" in lines[-1]


def test_a_plan_of_nothing_can_be_written_too() -> None:
    empty = MapView(Problem(()), solve(Problem(())))
    assert all(write(empty) for write in WRITERS.values())


def test_events_have_what_the_trace_format_asks_for() -> None:
    assert {one["ph"] for one in json.loads(WRITERS[".json"](VIEW))["traceEvents"]} == {"X", "C"}
    assert trace_faults(WRITERS[".json"](VIEW)) == []
    long = MapView(PROBLEM, solve(PROBLEM), "", [BlockText("\u202e" * 9, "y" * 1_000_000)] * 3)
    assert len(WRITERS[".json"](long)) < 10_000
    assert len(WRITERS[".csv"](long)) < 10_000
