"""A kernel of another processor, whose command runs here by whoever claims it here."""

from __future__ import annotations

from collections.abc import Collection

from nnc.backends.llvm.assembly import LlvmKernel
from nnc.classes import dataclass
from nnc.codegen.ir.native_kernel import aligned
from nnc.core.running.dispatch import DISPATCHER, Specs, Tensors
from nnc.core.values.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class TargetKernel:
    """A kernel of the other processor, as a library has it; here its command runs by whoever claims it here."""

    native: LlvmKernel
    outputs: Specs

    @property
    def workspace_bytes(self) -> int:
        """Bytes of scratch memory, planned by the caller: the kernel's, and behind it that of the one who runs it."""
        return aligned(self.native.workspace_bytes) + self.runner_bytes

    @property
    def runner_bytes(self) -> int:
        """Bytes at the end of the workspace that whoever runs the kernel has for itself."""
        return aligned(self.native.worker_bytes)

    @property
    def worker_bytes(self) -> int:
        """None beside the workspace: further workers are the caller's, with their memory."""
        return 0

    def copied_bytes(self, inputs: Collection[int], outputs: Collection[int]) -> int:
        """Bytes of copies without gaps."""
        return self.native.copied_bytes(inputs, outputs)

    @property
    def breaks_off(self) -> bool:
        """Never: a library goes on to its end and says by a code what went wrong."""
        return False

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """The same command by the backends of this processor."""
        claim = DISPATCHER.claim(self.native.command, self.native.inputs, self.outputs)
        claim.kernel.run(inputs, outputs, None)
