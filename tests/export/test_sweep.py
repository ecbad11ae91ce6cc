"""A slice of `benchmarks/library_sweep.py`: rows say that answers are met, or why there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.library_sweep import RUNNERS, cases, result
from tests.export.compiled_c import tool


@pytest.mark.parametrize("target", ["x86-64", "aarch64", "wasm32"])
@pytest.mark.parametrize("name", ["while_loop", "lenet5"])
def test_a_case_meets_the_recorded_answers(name: str, target: str) -> None:
    compiler, emulator = RUNNERS[target]
    for program in (compiler, *emulator[:1]):
        tool(program)
    case = next(case for case in cases(Path()) if case.name == name)
    row = result(case, case.make(), target)
    assert row["same"] is True
    assert set(row["undefined"]) <= {"memcpy", "memset"}  # type: ignore[call-overload]  # names
    assert 0 < int(str(row["stack"])) <= 4096


def test_a_file_that_cannot_be_a_library_is_a_row_with_its_reason() -> None:
    case = next(case for case in cases(Path()) if case.name == "GRU")
    row = result(case, case.make(), "no target")
    assert "same" not in row
    assert "one of native" in str(row["error"])
