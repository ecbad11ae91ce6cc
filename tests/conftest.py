"""What holds for the whole run."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from tests import examined
from tests.skipped import told
from tests.turns import commits, waiting

# Tests make tens of thousands of kernels that nobody else asks for: they stay with the environment, for the next run.
# Before anything of the package is imported, which reads this once.
if sys.prefix != sys.base_prefix:
    os.environ.setdefault("NNC_CACHE_DIR", str(Path(sys.prefix) / "nnc-cache"))

# Hypothesis reads the constants of all modules there are, 4 s a worker, and draws them too: what a test draws would
# depend on what was imported before it.
providers._get_local_constants = lambda: providers._local_constants
# How long an example takes says how busy the machine is.
settings.register_profile("nnc", deadline=None)
settings.load_profile("nnc")

# A shell that starts a run in the background has it ignore Ctrl-C, and tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Where `scripts/test` wants the last line, which it tells behind mypy. Workers and programs that tests start have none.
SKIPPED_LINE = os.environ.pop("SKIPPED_LINE", "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: some tests wait for a clock, or for a program that waits."""
    return len(os.sched_getaffinity(0)) + 1 if sys.platform == "linux" else (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Not from here, where it would hold for this folder alone."""
    config.pluginmanager.register(examined)
    commits()  # told to workers and to programs that tests start


def pytest_collection(session: pytest.Session) -> None:
    """What is collected stays to the end: looks for garbage meanwhile took 15 of 25 s, in each worker."""
    gc.disable()
    # Of the whole suite each worker imports a stretch of its own first: assertions are rewritten once, not by each.
    if session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        for file in files[len(files) * number // workers : len(files) * (number + 1) // workers]:
            # What fails or is skipped is imported again, and told, where it is collected.
            with suppress(Exception, pytest.skip.Exception):
                import_module(".".join(file.relative_to(Path(__file__).parents[1]).with_suffix("").parts))


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the whole suite many cases of one rule take turns (tests/turns.py)."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or "NNC_EXAMPLES" in os.environ:
        return
    left = waiting(items)
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=list(left))


def pytest_collection_finish() -> None:
    """No later look for garbage sees it again, for half a second each time.

    Looks are rarer too: of 20.3 s of training and ONNX tests they took 1.06 s, and take 0.57 s so. A test that counts
    objects collects before its first count.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker tells of a test that passed once, not of its beginning, its three phases and its end.

    Of 5,000 empty tests telling and listening took 11.8 s of CPU, and take 7.1 s so.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_unconfigure(config: pytest.Config) -> None:
    """Behind pytest's own last line: what did not run here, and why. Workers have no terminal and say nothing."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    line = told(reporter.stats.get("skipped", ()))
    if SKIPPED_LINE:
        Path(SKIPPED_LINE).write_text(f"{line}\n", encoding="utf-8")
    else:
        reporter.ensure_newline()
        reporter.write_line(line)
