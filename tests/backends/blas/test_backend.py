"""The BLAS backend claims products of f32 and f64 alone, behind all others; conformance checks what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.backends.blas.backend import BlasBackend
from nnc.concrete import ConcreteGraph
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.ops.elementwise.pointwise import exp
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs

BACKEND = BlasBackend()
PLAIN = Command(GEMM, GemmAttrs())


@pytest.mark.parametrize(
    ("kind", "device", "reason"),
    [("f32", "cpu", ""), ("f64", "cpu", ""), ("i32", "cpu", "element type i32"), ("f32", "cuda", "outside host")],
)
def test_what_it_claims(kind: str, device: str, reason: str) -> None:
    one = TensorSpec((3, 3), dtype_of(kind), device=Device(device))
    assert reason in BACKEND.refusal(PLAIN, (one, one, None), (one,))
    assert bool(reason) == bool(BACKEND.refusal(PLAIN, (one, one, None), (one,)))
    assert BACKEND.refusal(Command(exp, NoAttrs()), (one,), (one,)) == "no product"


def test_only_who_names_it_gets_it() -> None:
    specs, results = (spec((3, 4)), spec((4, 5)), None), (spec((3, 5)),)
    assert DISPATCHER.claim(PLAIN, specs, results).backend.name != "blas"
    assert DISPATCHER.claim(PLAIN, specs, results, "blas").backend.name == "blas"
    assert "blas" in map(str, DISPATCHER.claims(PLAIN, specs, results))
    a, b, c = Tensor.from_numpy(np.eye(3, 4)), Tensor.from_numpy(np.ones((4, 5))), Tensor.zeros(spec((3, 5), "f64"))
    graph = ConcreteGraph(backend="blas")
    graph.add(PLAIN, [a, b, None], [c])
    graph.run()
    assert "gemm on blas" in str(graph)
    np.testing.assert_array_equal(c.numpy(), np.ones((3, 5)))


@pytest.mark.parametrize(("left", "right"), [((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 1, 2, 4), (2, 4, 5))])
def test_batches(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    a, b, bias = (generator.standard_normal(shape) for shape in (left, right, right[-1:]))
    want = a @ b + bias
    inputs = tuple(map(Tensor.from_numpy, (a, b, bias)))
    output = Tensor.empty(TensorSpec(want.shape, inputs[0].dtype))
    kernel = BACKEND.kernel(PLAIN, tuple(tensor.spec for tensor in inputs), (output.spec,))
    assert (kernel.workspace_bytes, kernel.copied_bytes((0,), (0,))) == (0, 0)
    BACKEND.program([Call(kernel, inputs, (output,))])()
    np.testing.assert_allclose(output.numpy(), want, 1e-12, 1e-12)


def test_infinities_and_overflow_pass_without_a_warning() -> None:
    a = Tensor.from_numpy(np.array([[np.inf, 1e38], [1.0, np.nan]], np.float32))
    b, c = Tensor.from_numpy(np.array([[0.0, 1.0], [1e38, 0.0]], np.float32)), Tensor.zeros(spec((2, 2)))
    kernel = BACKEND.kernel(PLAIN, (a.spec, b.spec, None), (c.spec,))
    kernel.run((a, b, None), (c,), None)
    np.testing.assert_array_equal(c.numpy()[0], [np.nan, np.inf])
