"""The backend that dispatch sees: gemm of f32 by oneDNN's matmul, on operands with any strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnc.backends.onednn.library import DnnOperand, DnnProduct, OnednnLibrary, Role
from nnc.classes import dataclass
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.running.dispatch import Call, Program, Specs, Tensors, WithoutWorkspace, other_elements
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import F32
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError, LayoutError
from nnc.ops.products.products import GEMM, GemmAttrs


@dataclass(frozen=True, slots=True, eq=False)
class OnednnKernel(WithoutWorkspace):
    """c[…, m, n] = sum_k a[…, m, k] · b[…, k, n] + bias[n]; the library keeps its scratch memory itself."""

    attrs: GemmAttrs
    library: OnednnLibrary

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute the output."""
        self.library.use_threads(SETTINGS.worker_count())
        self.product(inputs, outputs)()

    def product(self, inputs: Tensors, outputs: Tensors) -> DnnProduct:
        """The product of these tensors, ready to run. LayoutError for strides of 0 or less."""
        (result,) = outputs
        a, b, bias = inputs
        assert a is not None
        assert b is not None
        assert result is not None
        rank = result.spec.rank
        operands = {
            Role.SOURCE: _operand(a, rank, self.attrs.transpose_a),
            Role.WEIGHTS: _operand(b, rank, self.attrs.transpose_b),
            Role.RESULT: _operand(result, rank),
        }
        if bias is not None:
            operands[Role.BIAS] = _operand(bias, rank)
        return DnnProduct(self.library, operands)


def _operand(tensor: Tensor, rank: int, transposed: bool = False) -> DnnOperand:
    """The tensor with axes of size 1 in front, and its last axes swapped where it is read so."""
    missing = [1] * (rank - tensor.spec.rank)
    pairs = list(zip(tensor.shape, tensor.strides, strict=True))
    if any(size > 1 and stride < 1 for size, stride in pairs):
        got = f"strides {list(tensor.strides)}"
        raise LayoutError("onednn", got=got, need="strides above 0", fix="prefer another backend")
    shape, strides = [*missing, *tensor.shape], [*missing, *(max(stride, 1) for _, stride in pairs)]
    if transposed:
        shape[-2:], strides[-2:] = shape[:-3:-1], strides[:-3:-1]
    return DnnOperand(tensor.address, shape, strides)


def _kernel(call: Call) -> OnednnKernel:
    assert isinstance(call.kernel, OnednnKernel)
    return call.kernel


@dataclass(slots=True)
class OnednnBackend:
    """Matrix products of f32."""

    name: str = "onednn"
    _library: OnednnLibrary | None = None
    _reason: str | None = None

    def absence(self) -> str:
        """Why the library cannot be used here: it is not installed, or cannot be loaded."""
        if self._reason is None:
            # An engine of the library, and its number of threads, are there once.
            with FORK_GUARD:
                self._reason = self._loaded() if self._reason is None else self._reason
        return self._reason

    def _loaded(self) -> str:
        try:
            self._library = OnednnLibrary()
        except BackendError as error:
            return str(error)
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is not claimed: another operator, other elements, or tensors outside host memory."""
        if command.op is not GEMM:
            return "no product"
        if refused := other_elements((*inputs, *outputs), (F32,)):
            return refused
        empty = any(spec is not None and not spec.elements for spec in (*inputs, *outputs))
        return "an empty operand" if empty else ""

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> OnednnKernel:
        """The kernel of a command that `refusal` did not refuse."""
        assert self._library is not None
        return OnednnKernel(command.attrs, self._library)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, OnednnKernel]:
        """None: the library chooses for itself."""
        return {}

    def program(self, calls: Sequence[Call]) -> Program:
        """Runs the calls one after another; their products are made once."""
        kept = tuple(calls)
        products = [_kernel(call).product(call.inputs, call.outputs) for call in kept]

        def run() -> None:
            assert self._library is not None
            self._library.use_threads(SETTINGS.worker_count())
            for _, product in zip(kept, products, strict=True):
                product()

        return run
