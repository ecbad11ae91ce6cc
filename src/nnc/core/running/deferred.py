"""Backends that are made when a command first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nnc.addresses import within_addresses
from nnc.classes import dataclass
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.running.dispatch import (
    Backend,
    Call,
    Kernel,
    LayoutPreference,
    LoopBackend,
    LoopCalls,
    LoopProgram,
    Program,
    Specs,
    TracedBackend,
    WishingBackend,
)
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU
from nnc.core.values.recorder import Traced, WorkerTime


@dataclass(slots=True, eq=False)
class DeferredBackend:
    """A backend that is made, its modules imported, when it is first asked something.

    It serves tensors that lie on devices of the kind `serves`, the host's if nothing is said, or on any where that is
    empty: of others it is not asked.
    """

    name: str
    make: Callable[[], Backend]
    serves: str = CPU.kind
    _made: Backend | None = None

    def absence(self) -> str:
        """Why this backend cannot be used on this machine; empty when it can."""
        return self._backend().absence()

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why this backend does not claim the command on these specs; empty when it does."""
        return self._backend().refusal(command, inputs, outputs)

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        """The kernel for a command that `refusal` did not refuse."""
        return self._backend().kernel(command, inputs, outputs)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        """Other kernels for it by name: results within `nnc.core.values.dtype.TOLERANCE`, in another time."""
        return self._backend().variants(command, inputs, outputs)

    def program(self, calls: Sequence[Call]) -> Program:
        """One callable that runs `calls` (all of this backend) in order."""
        return self._backend().program(calls)

    def loop(self, calls: LoopCalls) -> LoopProgram | None:
        """The loop as one program; None where it does not run this one by itself."""
        made = self._backend()
        return made.loop(calls) if isinstance(made, LoopBackend) else None

    def preferences(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutPreference, ...]:
        """The operands that its kernel arranges; none where it does not tell."""
        made = self._backend()
        return made.preferences(command, inputs, outputs) if isinstance(made, WishingBackend) else ()

    def traced(self, calls: Sequence[Call]) -> Traced:
        """`program`, with the times of workers where the backend knows them."""
        made = self._backend()
        if isinstance(made, TracedBackend):
            return made.traced(calls)
        program = made.program(calls)

        def run() -> tuple[WorkerTime, ...]:
            program()
            return ()

        return run

    def peak(self, workers: int = 1) -> float:
        """Operations per second of so many workers; 0 where the backend does not know."""
        made = self._backend()
        return made.peak(workers) if isinstance(made, TracedBackend) and not made.absence() else 0.0

    def _backend(self) -> Backend:
        if self._made is None:
            # A backend may own what its process has once, such as a library's engine: whoever asks first makes it.
            with FORK_GUARD:
                if self._made is None:
                    with within_addresses(f"the {self.name} backend"):
                        self._made = self.make()
        return self._made
