"""The page of figures is what the files of `benchmarks/results` render to, and these are of the schema."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SPECIFICATION = importlib.util.spec_from_file_location("benchmark_figures", ROOT / "benchmarks" / "figures.py")
assert SPECIFICATION is not None
assert SPECIFICATION.loader is not None
FIGURES: Any = importlib.util.module_from_spec(SPECIFICATION)
sys.modules["benchmark_figures"] = FIGURES  # dataclasses look for the module of their annotations
SPECIFICATION.loader.exec_module(FIGURES)
RUN = {
    "date": "2026-01-02", "clock": "perf_counter", "load": 0.1, "peak_gflops": 100, "revision": "abc",
    "versions": {"torch": "2"}, "held": {},
}  # fmt: skip


def row(case: str, run: str, ours: float = 8.0, **changed: object) -> dict[str, Any]:
    figures = {
        "ours": ours + 1, "ours_best": ours, "best_peer": "onnxruntime", "ratio_of_best": ours / 10, "share": 0.7,
        "gflop": 1.0, "disturbed": [], "skipped": {},
    }  # fmt: skip
    return {"suite": "models", "level": "native", "threads": 2, "run": run, "case": case, **figures, **changed}


def results(processor: str, *rows: dict[str, Any]) -> Any:
    found = FIGURES.Results(processor, "A processor")
    for one in rows:
        found.runs.setdefault(one["run"], dict(RUN))
        found.put(one)
    return found


@pytest.mark.parametrize("path", sorted(FIGURES.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_of_figures_is_of_the_schema(path: Path) -> None:
    assert FIGURES.faults(path.read_text(encoding="utf-8"), path.stem) == []
    assert FIGURES.results_of(path.read_text(encoding="utf-8")).text() == path.read_text(encoding="utf-8")


def test_the_page_is_what_the_files_render_to() -> None:
    assert FIGURES.page(FIGURES.all_results()) == FIGURES.PAGE.read_text(encoding="utf-8"), (
        "python benchmarks/figures.py"
    )


def test_each_processor_has_a_column_and_a_verdict() -> None:
    slow = row("predict b", "r", 12.0, disturbed=["ours"])
    text = FIGURES.page([results("old", row("predict a", "r")), results("new", row("predict a", "r", 7.0), slow)])
    assert "| case | old | new |" in text
    assert "| predict a | 8 ms, **0.80** of onnxruntime, 0.70 of the peak | 7 ms, **0.70** of onnxruntime" in text
    assert "| predict b | – | 12 ms, **1.20** of onnxruntime, 0.70 of the peak ≈ |" in text
    assert "old: 1 of 1 meet the goal." in text
    assert "new: 1 of 2 meet the goal; farthest from it: predict b." in text


def test_a_peer_that_nothing_holds_to_avx2_is_marked() -> None:
    text = FIGURES.page([results("one", row("predict a", "r", level="x86-64-v3"))])
    assert "of onnxruntime°" in text


def test_a_case_measured_again_replaces_its_row_alone() -> None:
    other = row("predict a", "first", threads=1)
    found = results("one", row("predict a", "first"), other, row("predict b", "first"))
    found.runs["second"] = dict(RUN)
    found.put(row("predict a", "second", 5.0))
    assert [(one["case"], one["threads"], one["run"]) for one in found.rows] == [
        ("predict a", 2, "second"), ("predict b", 2, "first"), ("predict a", 1, "first"),
    ]  # fmt: skip
    found.keep_only(("models", "native", 2), "second")
    assert [one["run"] for one in found.rows] == ["second", "first"]
    found.keep_only(("models", "native", 1), "second")
    assert set(found.runs) == {"second"}


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    found = results("one", row("predict a", "r"))
    found.save(tmp_path)
    found.put(row("predict b", "r"))
    found.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]
    text = (tmp_path / "one.json").read_text(encoding="utf-8")
    assert FIGURES.faults(text, "one") == []
    assert FIGURES.results_of(text) == found


@pytest.mark.parametrize(
    "damage",
    [
        {"rows": [row("predict a", "absent")]},
        {"rows": [row("predict a", "r"), row("predict a", "r")]},
        {"rows": [row("predict a", "r", level="sse")]},
        {"rows": [row("predict a", "r", threads=0)]},
        {"rows": [row("predict a", "r", suite="unheard")]},
        {"rows": [row("predict a", "r", ours_best="fast")]},
        {"rows": [row("predict a", "r", share=float("nan"))]},
        {"rows": []},
        {"runs": {"r": {**RUN, "versions": None}}},
        {"processor": "another"},
        {"form": 0},
        {"more": 1},
    ],
)
def test_a_damaged_file_has_faults(damage: dict[str, object]) -> None:
    whole = json.loads(results("one", row("predict a", "r")).text())
    assert FIGURES.faults(json.dumps(whole), "one") == []
    assert FIGURES.faults(json.dumps({**whole, **damage}), "one") != []


def test_half_a_file_is_none() -> None:
    assert FIGURES.faults(results("one", row("predict a", "r")).text()[:-9], "one") != []
