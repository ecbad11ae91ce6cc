"""Code for levels below the processor's own gives the reference's results; each meets another row of an operator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.runs import BACKENDS

from nnc.backends.llvm.run.host import ENVIRONMENT_VARIABLE, runnable_target
from nnc.errors import UsageError

pytestmark = pytest.mark.skipif("llvm" not in BACKENDS, reason="LLVM is absent")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("row", "level"), list(enumerate(("generic", "x86-64-v2", "x86-64-v3"))))
def test_rows_agree_at_a_lower_level(row: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, level)
    try:
        runnable_target()
    except UsageError as absent:
        pytest.skip(str(absent))
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    environment = os.environ | {"PYTHONPATH": paths}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.conformance.level", str(row)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.endswith("rows agree\n")
