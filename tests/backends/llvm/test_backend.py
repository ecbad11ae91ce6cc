from __future__ import annotations

import numpy as np
import pytest

from nnc.backends.llvm import backend as backend_module
from nnc.backends.llvm.assembly import assemble
from nnc.backends.llvm.backend import LlvmBackend
from nnc.backends.llvm.run.engine import engine
from nnc.core.running import llvm_library
from nnc.core.running.dispatch import Call
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BOOL, F32, F64, I32, I64, U8
from nnc.core.values.spec import Shape, TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import window_of
from nnc.ops.elementwise.pointwise import add, exp, relu
from nnc.ops.indexing.indexing import GATHER, AxisAttrs
from nnc.ops.normalization.softmaxes import SOFTMAX_CROSS_ENTROPY
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer

BACKEND = LlvmBackend()
NONE = NoAttrs()


def random(*shape: int) -> Tensor:
    return Tensor.from_numpy(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


def call(command: AnyCommand, inputs: list[Tensor | None], outputs: list[Tensor | None] | None = None) -> Call:
    specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
    results = infer(command.op, command.attrs, specs)
    kernel = BACKEND.kernel(command, specs, results)
    made = outputs or [Tensor.empty(result) for result in results]
    size = kernel.workspace_bytes
    workspace = Tensor.empty(TensorSpec((size,), U8)) if size else None
    return Call(kernel, tuple(inputs), tuple(made), workspace)


def result(one: Call) -> np.ndarray:
    tensor = one.outputs[0]
    assert tensor is not None
    return tensor.numpy()


def test_it_is_present_here() -> None:
    assert BACKEND.absence() == ""


def test_a_missing_library_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_library, "absence", lambda: "llvmlite cannot be loaded: no such file")
    absent = LlvmBackend()
    with pytest.warns(RuntimeWarning, match="no such file"):
        assert "no such file" in absent.absence()
    assert "no such file" in absent.absence()


def test_code_that_cannot_be_made_is_an_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no target")

    monkeypatch.setattr(backend_module, "engine", broken)
    with pytest.warns(RuntimeWarning, match="no target"):
        assert LlvmBackend().absence() == "RuntimeError: no target"


def test_what_it_cannot_do_it_does_not_claim() -> None:
    whole, truth = spec([4, 4], I32), spec([4, 4], BOOL)
    assert "i32" in BACKEND.refusal(Command(GEMM, GemmAttrs()), (whole, whole, None), (whole,))
    assert "bool" in BACKEND.refusal(Command(add, NONE), (truth, truth), (truth,))
    volume, weights = spec([1, 3, 3, 3, 1]), spec([2, 2, 2, 1, 1])
    cube = Command(CONVOLUTION, ConvolutionAttrs(window_of(2, rank=3)))
    assert "3 spatial axes" in BACKEND.refusal(cube, (volume, weights, None), (spec([1, 2, 2, 2, 1]),))
    wide = spec([4, 4], F64)
    assert BACKEND.refusal(Command(exp, NONE), (wide,), (wide,)) == ""


def test_a_program_runs_its_calls_in_order() -> None:
    x, w = random(64, 128), random(128, 32)
    first = call(Command(GEMM, GemmAttrs()), [x, w, None])
    second = call(Command(relu, NONE), [first.outputs[0]])
    BACKEND.program([first, second])()
    np.testing.assert_allclose(result(second), np.maximum(x.numpy() @ w.numpy(), 0), rtol=1e-4, atol=1e-4)


def test_a_strided_output_is_written_through_a_copy() -> None:
    x, w = random(6, 8), random(8, 5)
    whole = Tensor.zeros(spec([12, 5]))
    view = whole.view(spec([6, 5]), 0, (10, 1))
    one = call(Command(GEMM, GemmAttrs()), [x, w, None], [view])
    assemble([one])()
    np.testing.assert_allclose(whole.numpy()[::2], x.numpy() @ w.numpy(), rtol=1e-5, atol=1e-5)
    assert not whole.numpy()[1::2].any()


def test_an_unwanted_output_is_computed_elsewhere() -> None:
    x, labels = random(5, 3), Tensor.from_numpy(np.array([0, 1, 2, 0, 1], np.int64))
    loss = Tensor.empty(spec([5], F32))
    one = call(Command(SOFTMAX_CROSS_ENTROPY, NONE), [x, labels], [loss, None])
    one.kernel.run(one.inputs, one.outputs, one.workspace)
    power = np.exp(x.numpy().astype(np.float64))
    want = -np.log(power / power.sum(1, keepdims=True))[np.arange(5), labels.numpy()]
    np.testing.assert_allclose(loss.numpy(), want, rtol=1e-5)


def test_batch_axes_that_b_ignores_become_rows() -> None:
    x, w = random(2, 3, 4), random(4, 5)
    one = call(Command(GEMM, GemmAttrs()), [x, w, None])
    assemble([one])()
    np.testing.assert_allclose(result(one), x.numpy() @ w.numpy(), rtol=1e-5, atol=1e-5)


def test_the_planned_workspace_is_used() -> None:
    # 41 channels fill whole registers of no size, so that all targets pack these weights.
    x, w = random(2, 9, 9, 8), random(3, 3, 8, 41)
    one = call(Command(CONVOLUTION, ConvolutionAttrs(window_of(3, padding=1))), [x, w, None])
    assert one.workspace is not None
    one.workspace.storage.bytes.fill(0)
    assemble([one])()
    assert one.workspace.storage.bytes.any()


def test_labels_may_be_any_integer() -> None:
    x = spec([5, 3])
    for labels, reason in ((spec([5], I64), ""), (spec([5], F32), "labels")):
        command = Command(SOFTMAX_CROSS_ENTROPY, NONE)
        assert reason in BACKEND.refusal(command, (x, labels), (spec([5]), x))


def test_a_kernel_runs_alone_on_contiguous_and_on_strided_tensors() -> None:
    x, w = random(2, 9, 9, 8), random(3, 3, 8, 41)
    one = call(Command(CONVOLUTION, ConvolutionAttrs(window_of(3, padding=1))), [x, w, None])
    assemble([one])()
    want = result(one).copy()
    for source in (x, Tensor.from_numpy(np.repeat(x.numpy(), 2, axis=2)[:, :, ::2])):
        for workspace in (one.workspace, None):
            result(one)[:] = 0
            one.kernel.run((source, w, None), one.outputs, workspace)
            np.testing.assert_array_equal(result(one), want)


def convolution(window: int, groups: int = 1) -> AnyCommand:
    return Command(CONVOLUTION, ConvolutionAttrs(window_of(window, padding=window // 2), groups))


# The command, the shapes of data and weights, and whether the packed weights have a workspace.
PACKING: dict[str, tuple[AnyCommand, Shape, Shape, bool]] = {
    "panels of a product": (Command(GEMM, GemmAttrs()), (300, 70), (70, 90), False),
    "panels just before their use": (Command(GEMM, GemmAttrs()), (40, 300), (300, 700), False),
    "weights in a workspace": (convolution(5), (1, 16, 16, 8), (5, 5, 8, 41), True),
    "weights in pieces": (convolution(5), (1, 3, 3, 128), (5, 5, 128, 130), False),
    "weights of tiles": (convolution(3), (1, 16, 16, 32), (3, 3, 32, 48), False),
    "weights of one channel": (convolution(3, 48), (1, 8, 8, 48), (3, 3, 1, 48), False),
}


@pytest.mark.parametrize("case", PACKING)
def test_weights_that_change_between_runs_are_packed_anew(case: str) -> None:
    """Twice the weights are twice the result, to the last bit."""
    command, data, weights, apart = PACKING[case]
    w = random(*weights)
    one = call(command, [random(*data), w, None])
    assert (one.workspace is not None) == apart
    run = assemble([one])
    run()
    first = result(one).copy()
    w.numpy()[:] *= 2
    run()
    np.testing.assert_array_equal(result(one), 2 * first)


def test_code_of_calls_that_are_assembled_stays_while_their_kernel_does() -> None:
    one = call(Command(GATHER, AxisAttrs(0)), [random(10), Tensor.from_numpy(np.arange(0, 10, 3))])
    jit, linked = engine().jit, []
    for _ in range(2):
        one.kernel.run(one.inputs, one.outputs, one.workspace)
        linked.append(jit._linked)
    assert linked[0] == linked[1]
