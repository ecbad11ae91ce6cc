"""Commands made ready to run at once on given specs: the kernel, and where each output comes from."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.concrete.graph import workspace_spec
from nnc.core.precautions.origin import caller_origin
from nnc.core.running.dispatch import Kernel
from nnc.core.running.inspectors import INSPECTORS, CommandLabel
from nnc.core.values.command import AnyCommand
from nnc.core.values.pool import Pool
from nnc.core.values.recorder import PROFILER, KernelTime, now
from nnc.core.values.spec import Shape, TensorSpec, contiguous_strides
from nnc.core.values.tensor import Tensor
from nnc.dynamic.execution.host_kernel import kernel_for
from nnc.errors import UsageError
from nnc.ops.rules import INPLACE, infer
from nnc.ops.work import work


@dataclass(slots=True, eq=False)
class PreparedCommand:
    """A command on given specs: its kernel and, per output, spec, bytes, strides, input written over.

    `elsewhere` tells whether any of it is outside of host memory.
    """

    command: AnyCommand
    kernel: Kernel
    places: Sequence[tuple[TensorSpec, int, Shape, int | None]]
    writes_over: bool
    elsewhere: bool = False

    def run(self, pool: Pool, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """Outputs in memory that others have left, but for those that are written over an input."""
        for given in inputs:
            if given is not None and given.storage.file is not None:
                given.storage.file.check()
        if self.writes_over or self.elsewhere:
            outputs = self._outputs(pool, inputs)
        elif len(self.places) == 1:
            spec, size, strides, _ = self.places[0]
            outputs = (Tensor.over(spec, pool.allocate(size), strides),)
        else:
            outputs = tuple([Tensor.over(spec, pool.allocate(size), strides) for spec, size, strides, _ in self.places])
        room = self.kernel.workspace_bytes
        scratch = Tensor.empty(workspace_spec(room).on(self.places[0][0].device), pool=pool) if room else None
        try:
            if PROFILER.recorders:
                self._run_timed(tuple(inputs), outputs, scratch)
            else:
                self.kernel.run(tuple(inputs), outputs, scratch)
        except UsageError as error:
            error.origin = error.origin or caller_origin()
            raise
        return outputs

    def _outputs(self, pool: Pool, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """The inputs that are written over, and memory of each output's device for the others."""
        made = []
        for spec, nbytes, strides, source in self.places:
            old = None if source is None else inputs[source]
            made.append(Tensor.over(spec, pool.of(spec.device).allocate(nbytes), strides) if old is None else old)
        return tuple(made)

    def _run_timed(
        self, inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor, ...], scratch: Tensor | None
    ) -> None:
        """The same, noted."""
        begin = now()
        self.kernel.run(inputs, outputs, scratch)
        end = now()
        given = [None if operand is None else operand.spec for operand in inputs]
        operations = work(self.command, given, [value.spec for value in outputs])
        thread, origin = threading.get_ident(), caller_origin()
        PROFILER.note(KernelTime("", self.command.op.name, origin, "eager", operations, thread, begin, end))
        INSPECTORS.show(CommandLabel(self.command, origin), inputs, outputs)


def prepare_command(command: AnyCommand, specs: tuple[TensorSpec | None, ...], backend: str) -> PreparedCommand:
    """The command on these specs; UsageError, with the caller's line, where they do not fit."""
    try:
        results = infer(command.op, command.attrs, specs)
        kernel = kernel_for(command, specs, results, backend)
    except UsageError as error:
        error.origin = error.origin or caller_origin()
        raise
    over = {output: source for source, output in INPLACE[command.op](command.attrs).enforced}
    places = [(spec, spec.nbytes, contiguous_strides(spec.shape), over.get(at)) for at, spec in enumerate(results)]
    written = any(source is not None and specs[source] is not None for source in over.values())
    elsewhere = any(spec is not None and not spec.device.is_host for spec in (*specs, *results))
    return PreparedCommand(command, kernel, places, written, elsewhere)
