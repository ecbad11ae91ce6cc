"""Who runs what: backends in order of preference, drivers of devices, the compiler of solvers, the array API.

The modules below ask for them by `nnc.faces.wire` when they are first used. Each is imported when it is needed itself.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import ModuleType

from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.running.deferred import DeferredBackend
from nnc.core.running.devices import DEVICES, DeviceDriver
from nnc.core.running.dispatch import DISPATCHER, Backend
from nnc.core.running.namespace import use_functions, use_namespace
from nnc.core.running.stored_steps import STEP_STORES, StepStore
from nnc.core.values.storage import use_devices
from nnc.planning.native import Loop, use_compiler

__all__: list[str] = []


def _make(module: str, name: str) -> Backend:
    """A backend, imported when a command first asks for it, so that importing the package stays quick."""
    with FORK_GUARD:
        backend: Backend = getattr(import_module(module), name)()
    return backend


def _translate(loop: Loop) -> Loop:
    """A loop of a solver as native code."""
    with FORK_GUARD:
        native: Loop = import_module("nnc.backends.llvm.run.translate").translate(loop)
    return native


def _step_store() -> StepStore:
    """Keeps native programs; without what writes kernels, which a program from the disk does not need."""
    with FORK_GUARD:
        store: StepStore = import_module("nnc.backends.llvm.storing").STORE
    return store


STEP_STORES.serve("llvm", _step_store)
_llvm = DeferredBackend("llvm", lambda: _make("nnc.backends.llvm.backend", "LlvmBackend"))
DISPATCHER.add(_llvm, packages=("llvmlite",))
_reference = DeferredBackend("reference", lambda: _make("nnc.backends.reference.backend", "ReferenceBackend"))
DISPATCHER.add(_reference, measured=False)
DISPATCHER.add(DeferredBackend("blas", lambda: _make("nnc.backends.blas.backend", "BlasBackend")))
_onednn = DeferredBackend("onednn", lambda: _make("nnc.backends.onednn.backend", "OnednnBackend"))
DISPATCHER.add(_onednn, packages=("onednn-cpu-gomp",))
DISPATCHER.add(DeferredBackend("transfer", lambda: _make("nnc.backends.transfer.backend", "TransferBackend"), ""))


def _driver(kind: str) -> DeviceDriver:
    """The driver of a kind of devices, which looks for its library."""
    with FORK_GUARD:
        driver: DeviceDriver = getattr(import_module(f"nnc.backends.gpu.{kind}.driver"), f"{kind}_driver")()
    return driver


def _device_backend(kind: str) -> Backend:
    """The backend of a kind of devices."""
    with FORK_GUARD:
        backend: Backend = import_module("nnc.backends.gpu.backend").GpuBackend(kind)
    return backend


def _file_driver() -> DeviceDriver:
    """The driver of folders."""
    with FORK_GUARD:
        driver: DeviceDriver = import_module("nnc.backends.transfer.file_driver").file_driver()
    return driver


DEVICES.add("file", _file_driver)
for _kind in ("cuda", "vulkan"):
    DEVICES.add(_kind, partial(_driver, _kind))
    DISPATCHER.add(DeferredBackend(_kind, partial(_device_backend, _kind), _kind))
use_compiler(_translate)
use_devices(DEVICES.driver)


def _target(name: str) -> Backend:
    """The kernels of the processor that a library is made for."""
    with FORK_GUARD:
        target: Backend = import_module("nnc.backends.llvm.target_backend").target_backend(name)
    return target


DISPATCHER.serve_targets(_target)


def _namespace(version: str | None) -> ModuleType:
    """The array API of that version of the standard."""
    namespace: ModuleType = import_module("nnc.array_api").namespace_of(version)
    return namespace


use_namespace(_namespace)


def _functions() -> ModuleType:
    """The functions of arrays, which are methods too."""
    return import_module("nnc.numerics")


use_functions(_functions)
