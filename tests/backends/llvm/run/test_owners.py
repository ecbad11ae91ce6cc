"""In debug mode native code gets no address whose owner the program does not hold."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.backends.llvm.backend import LlvmBackend
from nnc.core.running.dispatch import Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import VerificationError
from nnc.ops.elementwise.pointwise import relu
from nnc.ops.rules import NoAttrs

S = spec([16])


def astray() -> Tensor:
    """A tensor that says it lies where other memory is, as a copied address would."""
    other = np.zeros(64, np.uint8)
    return Tensor(S, Storage.owned(np.zeros(64, np.uint8), int(other.ctypes.data), 64))


@pytest.mark.parametrize("place", ["input", "output"])
def test_an_address_of_memory_that_nobody_holds_is_found(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(SETTINGS, "debug", True)
    backend = LlvmBackend()
    kernel = backend.kernel(Command(relu, NoAttrs()), (S,), (S,))
    good, bad = Tensor.zeros(S), astray()
    call = Call(kernel, (bad if place == "input" else good,), (bad if place == "output" else good,))
    with pytest.raises(VerificationError, match="64 bytes of memory that nobody here holds"):
        backend.program([call])
    with pytest.raises(VerificationError, match="nobody here holds"):
        kernel.run(call.inputs, call.outputs, None)
    backend.program([Call(kernel, (good,), (good,))])()
    kernel.run((good,), (good,), None)


def test_strided_views_and_copies_made_for_them_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "debug", True)
    backend = LlvmBackend()
    whole = Tensor.from_numpy(np.linspace(-1, 1, 64, dtype=np.float32))
    every, out = whole.view(S, 1, (4,)), whole.view(S, 2, (4,))
    kernel = backend.kernel(Command(relu, NoAttrs()), (S,), (S,))
    backend.program([Call(kernel, (every,), (out,))])()
    assert out.numpy().tolist() == np.maximum(every.numpy(), 0).tolist()
