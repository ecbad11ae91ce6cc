"""What a file of ONNX needs of the package is imported, and no more: each module takes a third of a millisecond."""

from __future__ import annotations

import subprocess
import sys


def test_running_a_file_imports_neither_models_nor_training() -> None:
    program = (
        "import sys; from nnc.onnx import load; print(*[name for name in sys.modules if name.startswith('nnc.nn')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
