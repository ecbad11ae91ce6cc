"""The first signal asks, the second insists."""

from __future__ import annotations

import signal

import pytest

from nnc.cli.interrupt import SIGNALS, Interrupts, settled


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_kept(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        assert not interrupts.pending()
        signal.raise_signal(number)
        assert interrupts.pending()
    assert interrupts.signal is number


@pytest.mark.parametrize("second", SIGNALS)
def test_the_second_signal_ends_the_process(second: signal.Signals) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]

    def insist() -> None:
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(second)

    with pytest.raises(SystemExit) as stop:
        insist()
    assert stop.value.code == 128 + second
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_process_that_was_stopped_keeps_its_code() -> None:
    """Python takes its time to end; the second signal came then, and killed it: -15 in place of 143."""
    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        assert settled(0) == 0
        assert [signal.getsignal(number) for number in SIGNALS] == before
        for number in SIGNALS:
            assert settled(128 + number) == 128 + number
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
