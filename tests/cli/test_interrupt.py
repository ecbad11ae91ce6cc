"""The first signal asks, the second insists."""

from __future__ import annotations

import signal

import pytest

from nnc.cli.interrupt import SIGNALS, Interrupts


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
