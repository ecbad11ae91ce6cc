"""The backend that dispatch sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nnc.backends.reference.arrays import ReferenceKernel
from nnc.backends.reference.kernels import KERNELS, kernel_of
from nnc.backends.reference.movement.layout import out_of_blocks
from nnc.classes import dataclass
from nnc.core.running.dispatch import Call, Program, Specs, Tensors, WithoutWorkspace, one_by_one, outside_host
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Blocked, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import OutOfMemoryError
from nnc.ops.composed.custom import KERNEL
from nnc.ops.elementwise.rows import FORWARD
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.layout import CONVERT_LAYOUT
from nnc.ops.rules import infer


@dataclass(frozen=True, slots=True, eq=False)
class NumpyKernel(WithoutWorkspace):
    """A command bound to its NumPy function and the specs of all its outputs; NumPy allocates its own temporaries."""

    command: AnyCommand
    function: ReferenceKernel
    results: tuple[TensorSpec, ...]
    blocks: Mapping[int, Blocked]

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute `outputs` from `inputs`; overflow, division by zero and nan follow IEEE 754 without a warning.

        An absent output is computed into memory that is thrown away. OutOfMemoryError where temporaries do not fit.
        """
        try:
            self._compute(inputs, outputs)
        except MemoryError:
            need = "memory for NumPy's temporaries"
            raise OutOfMemoryError(self.command.op.name, got="less memory than it takes", need=need) from None

    def _compute(self, inputs: Tensors, outputs: Tensors) -> None:
        arrays = [None if tensor is None else tensor.numpy() for tensor in inputs]
        for place, layout in self.blocks.items():
            given = arrays[place]
            assert given is not None
            arrays[place] = out_of_blocks(given, layout)
        results = [
            np.empty(spec.shape, spec.dtype.numpy) if tensor is None else tensor.numpy()
            for tensor, spec in zip(outputs, self.results, strict=True)
        ]
        with np.errstate(all="ignore"):
            self.function(self.command.attrs, arrays, results)


@dataclass(frozen=True, slots=True)
class ReferenceBackend:
    """Every operator of nnc.ops, in NumPy: slow, plain, and the oracle for the others; and every custom command."""

    name: str = "reference"

    def absence(self) -> str:
        """Never absent: NumPy is a dependency of the package."""
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is not claimed: an operator of somebody else, or tensors that are not in host memory."""
        if all(command.op not in known for known in (KERNELS, FORWARD, KERNEL)):
            return "no kernel"
        return outside_host(*inputs, *outputs)

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> NumpyKernel:
        """The kernel of a command that `refusal` did not refuse."""
        function = KERNELS.get(command.op) or kernel_of(command.op)
        results = infer(command.op, command.attrs, inputs)
        # What results in blocks is computed element by element, as blocks lie.
        elementwise = any(isinstance(spec.layout, Blocked) for spec in results)
        blocks = {place: spec.layout for place, spec in enumerate(inputs) if spec and isinstance(spec.layout, Blocked)}
        if command.op is CONVERT_LAYOUT and blocks:
            function = KERNELS[contiguous]
        return NumpyKernel(command, function, results, {} if elementwise else blocks)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, NumpyKernel]:
        """None: the oracle has one way."""
        return {}

    def program(self, calls: Sequence[Call]) -> Program:
        """Runs the calls one after another."""
        return one_by_one(calls)
