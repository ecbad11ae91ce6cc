"""Code for levels below the processor's own gives the reference's results; each meets every third operator."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.runs import BACKENDS
from tests.forks import forking

from nnc.backends.llvm.run.host import ENVIRONMENT_VARIABLE, runnable_target
from nnc.errors import UsageError

pytestmark = pytest.mark.skipif("llvm" not in BACKENDS, reason="LLVM is absent")
ROOT = Path(__file__).parents[2]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("row", "level"), list(enumerate(("generic", "x86-64-v2", "x86-64-v3"))))
def test_rows_agree_at_a_lower_level(row: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, level)
    try:
        runnable_target()
    except UsageError as absent:
        pytest.skip(str(absent))
    code, out, told = forking(f"import sys; sys.path.append({str(ROOT)!r}); import tests.conformance.level").run(
        "import sys; from tests.conformance.level import main; main(int(sys.argv[1]))", str(row)
    )
    assert code == 0, told[-3000:]
    assert out.endswith("rows agree\n")
