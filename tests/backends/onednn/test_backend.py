"""The oneDNN backend around a library that records its calls; conformance runs the real one where it is installed."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from nnc.backends.onednn import library
from nnc.backends.onednn.backend import OnednnBackend, OnednnKernel
from nnc.backends.onednn.library import Role
from nnc.core.running.dispatch import Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError, LayoutError
from nnc.ops.elementwise.pointwise import exp
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs


@dataclass(slots=True)
class Recorder:
    """A shared library whose functions do nothing but succeed, except those in `failing`."""

    calls: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)
    failing: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., int]:
        def function(*arguments: object) -> int:
            self.calls.append((name, arguments))
            return 3 if name in self.failing else 0

        return function

    def named(self, name: str) -> list[tuple[object, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


class Wheel:
    """A distribution without files."""

    files = None


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(library, "distribution", lambda name: Wheel)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: made)
    return made


def gemm(attrs: GemmAttrs, *tensors: Tensor | None) -> None:
    *inputs, output = tensors
    backend = OnednnBackend()
    assert backend.absence() == ""
    specs = tuple(None if one is None else one.spec for one in inputs)
    assert output is not None
    kernel = backend.kernel(Command(GEMM, attrs), specs, (output.spec,))
    assert (kernel.workspace_bytes, kernel.copied_bytes((0,), (0,))) == (0, 0)
    backend.program([Call(kernel, tuple(inputs), (output,))])()


def test_without_its_wheel_it_is_absent_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(library, "distribution", missing)
    assert "Fix: pip install nnc[onednn]" in OnednnBackend().absence()


def test_a_library_that_does_not_load_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise OSError(f"{path}: no such file")

    monkeypatch.setattr(library, "distribution", lambda name: Wheel)
    monkeypatch.setattr(ctypes, "CDLL", broken)
    assert "libdnnl.so.3: no such file" in OnednnBackend().absence()


@pytest.mark.parametrize(
    ("shape", "kind", "device", "reason"),
    [
        ((3, 3), "f32", "cpu", ""),
        ((3, 3), "f64", "cpu", "element type f64"),
        ((3, 3), "f32", "cuda", "tensors outside host memory"),
        ((0, 0), "f32", "cpu", "an empty operand"),
    ],
)
def test_what_it_claims(shape: tuple[int, int], kind: str, device: str, reason: str) -> None:
    one = TensorSpec(shape, dtype_of(kind), device=Device(device))
    assert OnednnBackend().refusal(Command(GEMM, GemmAttrs()), (one, one, None), (one,)) == reason
    assert OnednnBackend().refusal(Command(exp, NoAttrs()), (one,), (one,)) == "no product"


def test_operands_are_described_where_they_are(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "threads", 3)
    a, b = Tensor.zeros(spec((2, 5, 3))), Tensor.zeros(spec((5, 4)))
    bias, y = Tensor.zeros(spec((4,))), Tensor.zeros(spec((2, 3, 4)))
    gemm(GemmAttrs(transpose_a=True), a, b, bias, y)
    layouts = [
        (list(shape), list(strides))
        for _, _, shape, _, strides in recorder.named("dnnl_memory_desc_create_with_strides")
    ]
    assert layouts == [
        ([2, 3, 5], [15, 1, 3]),
        ([1, 5, 4], [1, 4, 1]),
        ([2, 3, 4], [12, 4, 1]),
        ([1, 1, 4], [1, 1, 1]),
    ]
    addresses = [arguments[-1].value for arguments in recorder.named("dnnl_memory_create")]
    assert addresses == [a.address, b.address, y.address, bias.address]
    ((_, _, count, arguments),) = recorder.named("dnnl_primitive_execute")
    assert [argument.role for argument in arguments] == [Role.SOURCE, Role.WEIGHTS, Role.RESULT, Role.BIAS]
    assert count.value == 4
    assert [threads.value for (threads,) in recorder.named("omp_set_num_threads")] == [3]


def test_objects_are_destroyed_with_the_program(recorder: Recorder) -> None:
    gemm(GemmAttrs(), *(Tensor.zeros(spec((2, 2))) for _ in range(2)), None, Tensor.zeros(spec((2, 2))))
    for kind, count in (("memory_desc", 3), ("memory", 3), ("primitive", 1), ("primitive_desc", 1)):
        assert len(recorder.named(f"dnnl_{kind}_destroy")) == count


def test_what_the_library_refuses_is_an_error(recorder: Recorder) -> None:
    recorder.failing = ("dnnl_matmul_primitive_desc_create",)
    square = [Tensor.zeros(spec((2, 2))) for _ in range(3)]
    with pytest.raises(BackendError, match="status 3 of matmul_primitive_desc_create"):
        gemm(GemmAttrs(), square[0], square[1], None, square[2])


def test_strides_that_the_library_cannot_read(recorder: Recorder) -> None:
    square = [Tensor.from_numpy(np.zeros((2, 2), np.float32)) for _ in range(2)]
    mirrored = square[0].view(spec((2, 2)), 1, (2, -1))
    with pytest.raises(LayoutError, match=r"got strides \[2, -1\]; need strides above 0"):
        OnednnKernel(GemmAttrs(), library.OnednnLibrary()).run((mirrored, square[0], None), (square[1],), None)


def test_the_library_is_loaded_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[object] = []

    def load() -> object:
        time.sleep(0.02)
        loaded.append(object())
        return loaded[-1]

    monkeypatch.setattr("nnc.backends.onednn.backend.OnednnLibrary", load)
    backend = OnednnBackend()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: backend.absence(), range(8))) == {""}
    assert len(loaded) == 1
