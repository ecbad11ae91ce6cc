"""A limit on addresses ends in an error of nnc that names the step and the limit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nnc.core.precautions.address_space import check_addresses, within_addresses
from nnc.errors import OutOfMemoryError

pytest.importorskip("resource")

PROGRAM = """
import resource
import numpy as np
import nnc
from pathlib import Path
from nnc.errors import OutOfMemoryError
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + (MEGABYTES << 20)
x = nnc.array(np.ones((32, 8), np.float32))
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    (nnc.exp(x) @ x.T).sum().numpy()
except OutOfMemoryError as error:
    print("told:", error)
"""


@pytest.mark.parametrize("megabytes", [2, 40])
def test_a_first_sum_in_few_addresses_is_told_of(megabytes: int) -> None:
    program = PROGRAM.replace("MEGABYTES", str(megabytes))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "told:" in done.stdout
    assert "RLIMIT_AS" in done.stdout


def test_a_memory_error_names_the_step() -> None:
    with pytest.raises(OutOfMemoryError, match="the step"), within_addresses("the step"):
        raise MemoryError


def test_without_a_limit_nothing_is_asked() -> None:
    check_addresses("the step", 1 << 62)
