"""Blocks that Ctrl-C does not break."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from nnc.core.precautions.shield import Shield


def press() -> None:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    done: list[str] = []

    def work() -> None:
        with Shield():
            press()
            press()
            done.append("all of it")
        done.append("behind it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_block_without_interrupts_leaves_no_trace() -> None:
    with Shield():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_interrupt_breaks_a_breakable_block() -> None:
    done: list[int] = []

    def work() -> None:
        with Shield(breakable=True):
            for count in range(3):
                press()
                done.append(count)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [0]


def test_a_block_inside_a_breakable_one_is_kept_whole() -> None:
    done: list[str] = []

    def work() -> None:
        with Shield(breakable=True):
            press()
            with Shield():
                press()
                press()
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner"]


def test_an_error_of_the_block_is_the_context_of_the_interrupt() -> None:
    def work() -> None:
        with Shield():
            press()
            raise ValueError

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert isinstance(caught.value.__context__, ValueError)


def test_a_handler_that_is_set_inside_stays() -> None:
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    try:
        with Shield():
            signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
        press()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_a_handler_of_one_s_own_is_told_behind_the_block() -> None:
    order: list[str] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: order.append("handler"))
    try:
        with Shield():
            press()
            order.append("block")
    finally:
        signal.signal(signal.SIGINT, before)
    assert order == ["block", "handler"]


@pytest.mark.parametrize("handling", [signal.SIG_IGN, signal.SIG_DFL])
def test_without_a_handler_of_python_s_nothing_changes(handling: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handling)
    try:
        with Shield():
            assert signal.getsignal(signal.SIGINT) is handling
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_nothing_to_keep_out() -> None:
    seen: list[object] = []

    def work() -> None:
        with Shield():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_an_uncaught_interrupt_ends_the_process_as_ever() -> None:
    shield = "from nnc.core.precautions.shield import Shield"
    code = f"import signal\n{shield}\nwith Shield():\n    signal.raise_signal(signal.SIGINT)\n"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, env=environment)
    assert ran.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in ran.stderr
