"""Figures by processor: `results/PROCESSOR.json`, their schema, and the page that is rendered from them.

    python benchmarks/figures.py            writes docs/performance.md anew from the files

A file is what `performance.py` measured on one kind of processor, named as LLVM names it. A run says when, with what
and under which load it was made; a row is a line that a benchmark printed, and names its run. A row is replaced when
its case is measured again at the same level and with as many threads; nothing else changes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from nnc.core.precautions.replacement import write_atomically

ROOT = Path(__file__).resolve().parents[1]
FOLDER, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "performance.md"
FORM = 1
NATIVE, AVX2 = "native", "x86-64-v3"
LEVELS = (NATIVE, AVX2)
OWN = ("suite", "level", "threads", "run", "case")  # of a row; the rest is what the benchmark printed
ABSENT, LOOSE, UNSTEADY = "–", "°", "≈"
WORST = 3

# `Any`: rows are JSON, as each benchmark prints it.
Row = Mapping[str, Any]
Place = tuple[str, str, int]  # a suite, a level, threads
RUN = {
    "date": str, "clock": str, "load": float, "peak_gflops": float, "revision": str, "versions": dict, "held": dict
}  # fmt: skip


@dataclass(slots=True)
class Results:
    """What was measured on one kind of processor: runs by name, and rows in the order of the benchmarks."""

    processor: str
    model: str
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def put(self, row: dict[str, Any]) -> None:
        """In the place of the row of this case, else behind the others of its suite, level and threads."""
        places = [place_of(one) for one in self.rows]
        cases = [(place, one["case"]) for place, one in zip(places, self.rows, strict=True)]
        mine = place_of(row)
        if (mine, row["case"]) in cases:
            self.rows[cases.index((mine, row["case"]))] = row
        else:
            last = max((index for index, place in enumerate(places) if place == mine), default=len(places) - 1)
            self.rows.insert(last + 1, row)
        self._forget_runs()

    def keep_only(self, place: Place, run: str) -> None:
        """Without rows at this place of earlier runs: cases that are measured no longer."""
        self.rows = [row for row in self.rows if place_of(row) != place or row["run"] == run]
        self._forget_runs()

    def text(self) -> str:
        """As JSON, a row a line."""
        runs = ",\n".join(f"  {json.dumps(name)}: {json.dumps(run)}" for name, run in sorted(self.runs.items()))
        rows = ",\n".join(f"  {json.dumps(row)}" for row in self.rows)
        head = f'"form": {FORM},\n "processor": {json.dumps(self.processor)},\n "model": {json.dumps(self.model)}'
        return f'{{{head},\n "runs": {{\n{runs}\n }},\n "rows": [\n{rows}\n ]\n}}\n'

    def save(self, folder: Path = FOLDER) -> None:
        """Replace the file whole or not at all."""
        write_atomically(folder / f"{self.processor}.json", [self.text().encode()])

    def _forget_runs(self) -> None:
        named = {row["run"] for row in self.rows}
        self.runs = {name: run for name, run in self.runs.items() if name in named}


def place_of(row: Row) -> Place:
    return row["suite"], row["level"], row["threads"]


def results_of(text: str) -> Results:
    """Of JSON that has no `faults`."""
    found = json.loads(text)
    return Results(found["processor"], found["model"], found["runs"], found["rows"])


def all_results(folder: Path = FOLDER) -> list[Results]:
    return [results_of(path.read_text()) for path in sorted(folder.glob("*.json"))]


# ---- what is shown


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a suite that `holds` says: how a cell reads, and how far it is from its goal (1: just met)."""

    title: str
    suite: str
    holds: Callable[[Row], bool]
    cell: Callable[[Row], str]
    about: str
    distance: Callable[[Row], float] | None = None


def model_cell(row: Row) -> str:
    """The time of the fastest run, over the fastest peer's, and the share of the peak."""
    parts = [f"{row['ours_best']:.4g} ms"]
    if "ratio_of_best" in row:
        parts.append(f"**{row['ratio_of_best']:.2f}** of {peer_of(row)}")
    if "share" in row:
        parts.append(f"{row['share']:.2f} of the peak")
    return ", ".join(parts) + (f" {UNSTEADY}" if row["disturbed"] else "")


def peer_of(row: Row) -> str:
    loose = row["level"] == AVX2 and row["best_peer"] not in HELD
    return f"{row['best_peer']}{LOOSE if loose else ''}"


def rate_cell(row: Row) -> str:
    parts = [f"{row['gflops']:.4g} GFLOP/s", f"**{row['share']:.2f}** of the peak"]
    return ", ".join([*parts, *([f"{row['ratio']:.2f} of the best peer's rate"] if "ratio" in row else [])])


def memory_cell(row: Row) -> str:
    return f"{row['gigabytes']:.4g} GB/s, **{row['share']:.2f}** of a copy"


def eager_cell(row: Row) -> str:
    peers = [f"{ratio:.2f} of {name}" for name, ratio in row["least_over"].items()]
    return ", ".join([f"{row['least']['nnc']:.4g} µs", *peers])


def compile_cell(row: Row) -> str:
    return f"{row['cold']:.3g} s, {row['cached']:.3g} s with kernels cached"


def int8_cell(row: Row) -> str:
    """The faster of ours, over onnxruntime's on the same weights, quantized at run time and by the file."""
    kinds = (("dynamic", "dynamic"), ("qdq", "QDQ"))
    parts = [f"**{row[f'ratio_{key}']:.2f}** {name}" for key, name in kinds if f"ratio_{key}" in row]
    return ", ".join(parts) or ABSENT


def int8_distance(row: Row) -> float:
    return max(row.get("ratio_dynamic", 0.0), row.get("ratio_qdq", 0.0)) / 0.9


def inference_distance(row: Row) -> float:
    return row.get("ratio_of_best", 0.0) / 0.9


def training_distance(row: Row) -> float:
    return min(row.get("ratio_of_best", math.inf) / 0.7, 0.85 / row["share"])


def product_distance(row: Row) -> float:
    return max(0.9 / row["share"], 0.95 / row.get("ratio", math.inf))


def is_rate(kind: str) -> Callable[[Row], bool]:
    return lambda row: "gflops" in row and kind_of(row) == kind


def kind_of(row: Row) -> str:
    """Of a row of rates: products of bf16 apart from those of f32, and from convolutions."""
    return "convolution" if not row["case"].startswith("gemm") else "bf16" if row["case"].endswith("bf16") else "f32"


HELD: Mapping[str, Mapping[str, str]] = {
    "torch": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    "torch.compile": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    "openvino": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "jax": {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"},
    "numpy": {"OPENBLAS_CORETYPE": "Haswell"},
}
"""What holds a peer to AVX2; onnxruntime knows no such setting."""

TABLES = (
    Table("Inference", "models", lambda row: row["case"].startswith("predict"), model_cell,
          "The fastest run of ours, over that of the fastest peer. Goal: at most 0.90.", inference_distance),
    Table("Training steps", "models", lambda row: row["case"].startswith("train"), model_cell,
          "Goal: at most 0.70 of the fastest peer, or at least 0.85 of the peak.", training_distance),
    Table("Matrix products", "kernels", is_rate("f32"), rate_cell,
          "Goal: at least 0.90 of the peak and 0.95 of the better of torch and NumPy.", product_distance),
    Table("Matrix products of many sizes", "products", is_rate("f32"), rate_cell,
          "With every transpose, and the goal of other products.", product_distance),
    Table("Matrix products of bf16", "kernels", is_rate("bf16"), rate_cell, "The peak is that of f32."),
    Table("Convolutions and their gradients", "kernels", is_rate("convolution"), rate_cell,
          "With nominal operations: minimal filtering does with fewer."),
    Table("Limited by memory", "kernels", lambda row: "gigabytes" in row, memory_cell,
          "Each operand counted once, beside a copy that runs in turns."),
    Table("Weights of 8 bits", "int8", lambda row: True, int8_cell,
          "Over onnxruntime's on the same weights. Goal: at most 0.90.", int8_distance),
    Table("Eager and compiled functions", "eager", lambda row: True, eager_cell,
          "Microseconds of a call, and ours over each peer's."),
    Table("Time to the first answer", "compile", lambda row: True, compile_cell,
          "Graph, plan, kernels and one run, without the making of weights."),
)  # fmt: skip

NEEDED: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "models": {"ours": float, "ours_best": float, "disturbed": list, "skipped": dict, "gflop": float},
    "kernels": {"share": float, "microseconds": float},
    "products": {"share": float, "microseconds": float, "ratio": float},
    "int8": {"skipped": dict},
    "eager": {"least": dict, "least_over": dict, "median": dict, "median_over": dict},
    "compile": {"cold": float, "cached": float},
}
"""The figures that a row of a suite must have."""

INTRODUCTION = f"""# Performance

Measured by `python benchmarks/performance.py` and kept in `benchmarks/results/`, a file and a column for each kind of
processor that it was run on; a run replaces its own column only. `python benchmarks/figures.py` renders this page from
the files. What no column shows is not known.

Ratios are ours / the peer's time, of the fastest runs in alternation within one process: below 1 we are faster. The
peak is what loops of nothing but fused multiply-adds reach on registers, one on each thread. {UNSTEADY} marks a row
of which some side's median lies more than half above its best: other work on the machine disturbed it. At level
`{AVX2}` our code is made for AVX2, and peers are held to it by settings of their own, in a process of their own;
{LOOSE} marks one that has no such setting and runs as it is.
"""


def page(files: Sequence[Results]) -> str:
    """The whole document."""
    places = sorted({place_of(row)[1:] for one in files for row in one.rows}, key=lambda place: (place[0], -place[1]))
    parts = [INTRODUCTION, "## Runs\n", run_table(files)]
    for table in TABLES:
        chosen = [(one.processor, [row for row in one.rows if row["suite"] == table.suite and table.holds(row)])
                  for one in files]  # fmt: skip
        if any(rows for _, rows in chosen):
            parts += [f"## {table.title}\n", f"{table.about}\n"]
            parts += [part for level, threads in places for part in section(table, level, threads, chosen)]
    return "\n".join(parts)


def run_table(files: Iterable[Results]) -> str:
    heads = ("processor", "suite", "level", "threads", "date", "clock", "load", "peak, GFLOP/s", "revision", "versions")
    rows = []
    for one in files:
        for name, group in groupby(sorted(one.rows, key=lambda row: row["run"]), lambda row: row["run"]):
            run, first = one.runs[name], next(group)
            versions = ", ".join(f"{peer} {version}" for peer, version in run["versions"].items())
            peak = run["peak_gflops"] or ABSENT
            facts = (run["date"], run["clock"], run["load"], peak, run["revision"], versions)
            rows.append((f"{one.processor} ({one.model})", *place_of(first), *facts))
    return markdown_table(heads, rows)


def section(table: Table, level: str, threads: int, chosen: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[str]:
    """One level and number of threads: a column for each processor, and how far each is from the goal."""
    columns = {
        processor: {row["case"]: row for row in rows if place_of(row)[1:] == (level, threads)}
        for processor, rows in chosen
    }
    columns = {processor: rows for processor, rows in columns.items() if rows}
    if not columns:
        return []
    cases = dict.fromkeys(case for rows in columns.values() for case in rows)
    lines = [
        (case, *(table.cell(rows[case]) if case in rows else ABSENT for rows in columns.values())) for case in cases
    ]
    parts = [f"### {table.title}, {level}, {threads} thread{'s' if threads > 1 else ''}\n"]
    parts += [f"{verdict(table, processor, rows)}\n" for processor, rows in columns.items() if table.distance]
    return [*parts, markdown_table(("case", *columns), lines)]


def verdict(table: Table, processor: str, rows: Mapping[str, Row]) -> str:
    assert table.distance is not None
    far = sorted(((table.distance(row), case) for case, row in rows.items()), reverse=True)
    missed = [case for distance, case in far if distance > 1.0]
    text = f"{processor}: {len(far) - len(missed)} of {len(far)} meet the goal"
    return text + (f"; farthest from it: {', '.join(missed[:WORST])}." if missed else ".")


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


# ---- what must hold of a file


def faults(text: str, name: str) -> list[str]:
    """Why the file of this name is none; an empty list if it is one."""
    try:
        found = json.loads(text)
    except ValueError as error:
        return [f"no JSON: {error}"]
    if not isinstance(found, dict) or set(found) != {"form", "processor", "model", "runs", "rows"}:
        return ["need form, processor, model, runs and rows"]
    if found["form"] != FORM or found["processor"] != name:
        return [f"form {found['form']}, processor {found['processor']}; need {FORM} and {name}"]
    missing = [f"run {run}: {key}" for run, facts in found["runs"].items() for key in wrong(facts, RUN)]
    seen: set[object] = set()
    for number, row in enumerate(found["rows"]):
        missing += [f"row {number}: {fault}" for fault in row_faults(row, found["runs"], seen)]
    if unnamed := set(found["runs"]) - {row.get("run") for row in found["rows"]}:
        missing.append(f"runs without rows: {sorted(unnamed)}")
    return missing


def row_faults(row: Row, runs: Mapping[str, object], seen: set[object]) -> list[str]:
    if absent := [key for key in OWN if key not in row]:
        return absent
    found = [key for key, good in (
        ("suite", row["suite"] in NEEDED), ("level", row["level"] in LEVELS), ("run", row["run"] in runs),
        ("threads", isinstance(row["threads"], int) and row["threads"] > 0),
        ("case twice", (place_of(row), row["case"]) not in seen),
    ) if not good]  # fmt: skip
    seen.add((place_of(row), row["case"]))
    return [*found, *wrong(row, NEEDED.get(row["suite"], {})), *(f"{key} {value}" for key, value in numbers(row))]


def wrong(facts: Mapping[str, object], needed: Mapping[str, type | tuple[type, ...]]) -> list[str]:
    """Keys that are absent or of another type; whole numbers are numbers."""
    return [
        key for key, kind in needed.items()
        if not isinstance(facts.get(key), (int, float) if kind is float else kind)
    ]  # fmt: skip


def numbers(row: Row) -> list[tuple[str, float]]:
    """Figures that are none: infinite or below zero."""
    return [(key, value) for key, value in row.items()
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0.0)]  # fmt: skip


def render(folder: Path = FOLDER, to: Path = PAGE) -> None:
    """Write the page anew."""
    write_atomically(to, [page(all_results(folder)).encode()])


if __name__ == "__main__":
    render()
