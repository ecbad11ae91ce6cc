"""What programs for PyTorch ask of its backends."""

from __future__ import annotations

import pytest

import nnc
from nnc.backends import cudnn, mps
from nnc.errors import UnknownNameError


def test_they_are_not_here_and_take_switches() -> None:
    for backend in (mps, cudnn):
        assert not backend.is_available()
        assert not backend.is_built()
    cudnn.benchmark = True
    assert nnc.device("cuda" if nnc.cuda.is_available() else "mps" if mps.is_available() else "cpu") in nnc.devices()


def test_kinds_of_devices_answer_pytorch_s_names() -> None:
    with pytest.raises(UnknownNameError, match=r"nnc\.cuda has no 'amp'\. Fix: nnc\.amp"):
        nnc.cuda.amp  # type: ignore[attr-defined]  # what is tested
