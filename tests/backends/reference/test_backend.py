"""The reference backend as dispatch sees it."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

from nnc.backends.reference.backend import ReferenceBackend
from nnc.backends.reference.kernels import KERNELS
from nnc.core.running.dispatch import Call, Dispatcher, Specs
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import Device
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.graph import Op, Registry
from nnc.ops.elementwise.pointwise import AFFINE, AffineAttrs, log, square
from nnc.ops.operators import OPERATORS
from nnc.ops.rules import NoAttrs

BACKEND = ReferenceBackend()
NONE = NoAttrs()
THREADED = """
import hashlib
import numpy as np
from nnc.backends.reference.kernels import KERNELS
from nnc.ops.convolutions.convolutions import CONVOLUTION, CONVOLUTION_WEIGHT_GRADIENT
from nnc.ops.convolutions.convolutions import ConvolutionAttrs, ConvolutionGradientAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.convolutions.window import window_of

digest = hashlib.sha256()


def run(op, attrs, shape, *inputs):
    y = np.empty(shape, np.float32)
    KERNELS[op](attrs, inputs, [y])
    digest.update(y.tobytes())


def random(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


for m, k, n in ((300, 900, 257), (1, 30000, 1), (1, 3000, 400), (3000, 400, 1), (129, 2, 1025)):
    run(GEMM, GemmAttrs(), (m, n), random(m, k), random(k, n), None)
a = random(300, 400)
run(GEMM, GemmAttrs(transpose_b=True), (300, 300), a, a, None)
window = window_of(3, padding="same")
x, w = random(8, 20, 20, 16), random(3, 3, 16, 24)
run(CONVOLUTION, ConvolutionAttrs(window), (8, 20, 20, 24), x, w, None)
attrs = ConvolutionGradientAttrs(window, 1, (3, 3))
run(CONVOLUTION_WEIGHT_GRADIENT, attrs, w.shape, x, random(8, 20, 20, 24))
print(digest.hexdigest())
"""


@dataclass(frozen=True, slots=True)
class OtherAttrs:
    """Attributes of an operator of somebody else."""


def tensor(*values: float) -> Tensor:
    return Tensor.from_numpy(np.array(values, np.float32))


def refusal(command: AnyCommand, *specs: TensorSpec | None) -> str:
    inputs: Specs = specs
    return BACKEND.refusal(command, inputs, inputs[:1])


def test_there_is_a_kernel_for_every_operator_and_for_nothing_else() -> None:
    assert set(KERNELS) == set(OPERATORS)


def test_it_is_never_absent_and_claims_what_it_has() -> None:
    assert BACKEND.name == "reference"
    assert BACKEND.absence() == ""
    assert refusal(Command(log, NONE), spec((3,), "bf16")) == ""


def test_it_refuses_operators_of_others() -> None:
    op = Op("alien", OtherAttrs, ("x",), registry=Registry("elsewhere"))
    assert refusal(Command(op, OtherAttrs()), spec((3,))) == "no kernel"


def test_it_refuses_memory_of_other_devices() -> None:
    assert refusal(Command(log, NONE), TensorSpec((3,), device=Device("cuda"))) == "tensors outside host memory"
    assert refusal(Command(log, NONE), None, TensorSpec((3,), device=Device("cuda"))) == "tensors outside host memory"


def test_a_kernel_needs_no_workspace() -> None:
    kernel = BACKEND.kernel(Command(log, NONE), (spec((3,)),), (spec((3,)),))
    assert kernel.workspace_bytes == 0


def test_a_program_runs_its_calls_in_order_every_time() -> None:
    x, specs = tensor(1.0, 2.0, 3.0), (spec((3,)),)
    double = BACKEND.kernel(Command(AFFINE, AffineAttrs(2.0)), specs, specs)
    squared = BACKEND.kernel(Command(square, NONE), specs, specs)
    calls = [Call(double, (x,), (x,)), Call(squared, (x,), (x,))]
    program = BACKEND.program(calls)
    calls.clear()
    program()
    np.testing.assert_array_equal(x.numpy(), [4, 16, 36])
    program()
    np.testing.assert_array_equal(x.numpy(), [64, 1024, 5184])


@pytest.mark.filterwarnings("error")
def test_what_is_not_a_number_is_no_warning() -> None:
    x = tensor(-1.0, 0.0, np.inf)
    kernel = BACKEND.kernel(Command(log, NONE), (x.spec,), (x.spec,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel.run((x,), (x,), None)
    np.testing.assert_array_equal(x.numpy(), [np.nan, -np.inf, np.inf])


def test_dispatch_takes_it() -> None:
    dispatcher = Dispatcher()
    dispatcher.add(BACKEND)
    x = tensor(4.0)
    claim = dispatcher.claim(Command(square, NONE), (x.spec,), (x.spec,))
    claim.kernel.run((x,), (x,), None)
    assert claim.backend is BACKEND
    assert x.numpy()[0] == 16


def test_the_number_of_threads_of_the_matrix_library_changes_no_bit() -> None:
    digests = set()
    for threads in ("1", "4"):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": threads}
        found = subprocess.run(
            [sys.executable, "-c", THREADED], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(found.stdout)
    assert len(digests) == 1
