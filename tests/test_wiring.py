"""The package is wired when something first asks, from whichever module and however many threads."""

from __future__ import annotations

import pytest
from tests.forks import LIBRARIES, forking


def told(program: str, preparation: str = LIBRARIES) -> str:
    """What a process prints that has imported nothing of nnc before."""
    code, out, complaint = forking(preparation).run(program)
    assert code == 0, complaint
    return out.strip()


def test_the_front_door_imports_nothing() -> None:
    program = (
        "import sys, nnc; print([name for name in sys.modules if name.startswith(('nnc.', 'numpy', 'ml_dtypes'))])"
    )
    assert told(program, preparation="") == "[]"


@pytest.mark.parametrize(
    "first",
    [
        "nnc.core.running.deferred",
        "nnc.core.running.dispatch",
        "nnc.core.values.storage",
        "nnc.core.values.tensor",
        "nnc.planning",
        "nnc.wiring",
        "nnc.backends.llvm.backend",
        "nnc.symbolic",
        "nnc.cli.main",
    ],
)
def test_whichever_module_is_first_all_is_there(first: str) -> None:
    program = f"import {first}; from nnc.core.running.dispatch import DISPATCHER; print(*DISPATCHER.backends)"
    assert told(program) == "llvm reference blas onednn transfer cuda vulkan"


def test_who_asks_below_is_answered_without_the_table() -> None:
    program = """
from nnc.core.running.namespace import array_namespace
from nnc.core.values.device import device_of
from nnc.core.values.storage import memory_of
from nnc.errors import DeviceError
print(array_namespace(None).__name__)
try:
    memory_of(device_of("cuda:7"))
except DeviceError as error:
    print(type(error).__name__, "import nnc" in str(error))
"""
    assert told(program).split("\n") == ["nnc.array_api", "DeviceError False"]


@pytest.mark.parametrize("asked", ["nnc.devices()", "nnc.core.running.devices.DEVICES.kinds"])
def test_devices_have_their_drivers_when_they_are_asked_for_first(asked: str) -> None:
    program = f"import nnc, nnc.core.running.devices; {asked}; print(*nnc.core.running.devices.DEVICES.kinds)"
    assert told(program) == "cuda vulkan"


def test_threads_that_ask_at_once_get_the_whole_table() -> None:
    program = """
import sys, threading
import nnc
sys.setswitchinterval(1e-5)
gate, seen = threading.Barrier(8), []
names = ["exp", "sin", "cos", "tanh", "log1p", "sqrt", "abs", "square"]
def ask(name):
    gate.wait()
    seen.append(float(getattr(nnc, name)(nnc.array([0.5])).numpy()[0]))
threads = [threading.Thread(target=ask, args=(name,)) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
from nnc.core.running.dispatch import DISPATCHER
print(len(seen), *DISPATCHER.backends)
"""
    assert told(program) == "8 llvm reference blas onednn transfer cuda vulkan"
