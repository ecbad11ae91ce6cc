"""What holds for the whole run."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.skipped import told

# Tests make tens of thousands of kernels that nobody else asks for: they stay with the environment, for the next run.
# Before anything of the package is imported, which reads this once.
if sys.prefix != sys.base_prefix:
    os.environ.setdefault("NNC_CACHE_DIR", str(Path(sys.prefix) / "nnc-cache"))

# A shell that starts a run in the background has it ignore Ctrl-C, and tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """What is collected stays to the end: looks for garbage meanwhile took 15 of 25 s, in each worker."""
    gc.disable()


def pytest_collection_finish() -> None:
    """No later look for garbage sees it again, for half a second each time.

    Looks are rarer too: of 20.3 s of training and ONNX tests they took 1.06 s, and take 0.57 s so. A test that counts
    objects collects before its first count.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 20)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Behind pytest's own last line: what did not run here, and why. Workers have no terminal and say nothing."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(told(reporter.stats.get("skipped", ())))
