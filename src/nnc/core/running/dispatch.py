"""Dispatch: which backend runs a command on tensors of these specs.

A backend *claims* a command by returning a kernel for the specs at hand; the first claim in the order of
preference wins. A backend may have other kernels for the command, its variants, which nothing but a measurement
prefers. Only `nnc/wiring.py` puts backends into the table, so no upper layer knows their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from nnc.classes import dataclass
from nnc.core.precautions.recent import TwoGenerations
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU
from nnc.core.values.dtype import DType
from nnc.core.values.recorder import Labelled, Traced
from nnc.core.values.sizes import Renewal
from nnc.core.values.spec import Blocked, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError
from nnc.faces import wire

Specs = tuple[TensorSpec | None, ...]
Tensors = tuple[Tensor | None, ...]


class Kernel(Protocol):
    """A command made ready for fixed specs.

    `workspace_bytes` is scratch memory that each run needs, `worker_bytes` what each worker keeps for it.
    """

    @property
    def workspace_bytes(self) -> int:
        """Bytes of scratch memory, planned by the caller."""

    @property
    def worker_bytes(self) -> int:
        """Bytes of scratch memory for each worker, which the backend has."""

    def copied_bytes(self, inputs: Collection[int], outputs: Collection[int]) -> int:
        """Bytes of scratch memory beyond that when operands at these positions have gaps, for copies without."""

    @property
    def breaks_off(self) -> bool:
        """Whether a run may raise: custom commands, indices out of range, Ctrl-C between commands of Python."""

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute `outputs` from `inputs`; the specs are those the kernel was made for."""


class KernelFormula(Protocol):
    """A kernel as a function of sizes."""

    def at(self, renewal: Renewal, command: AnyCommand, inputs: Specs) -> Kernel:
        """The kernel of the command on these specs, which are what the renewal makes of those that it was made for."""


@runtime_checkable
class FollowingKernel(Protocol):
    """A kernel that knows what it is at other sizes."""

    def formula(self) -> KernelFormula:
        """For sizes in its command and its specs that remember where they come from, as long as these are open."""


class WithoutWorkspace:
    """What kernels of Python's say that want no memory of the caller, for whatever operands."""

    __slots__ = ()

    @property
    def breaks_off(self) -> bool:
        """Always."""
        return True

    @property
    def workspace_bytes(self) -> int:
        """Always 0."""
        return 0

    @property
    def worker_bytes(self) -> int:
        """Always 0."""
        return 0

    def copied_bytes(self, inputs: Collection[int], outputs: Collection[int]) -> int:
        """Always 0."""
        return 0


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One kernel with the tensors it runs on, and what it is made for."""

    kernel: Kernel
    inputs: Tensors
    outputs: Tensors
    workspace: Tensor | None = None
    source: Labelled | None = None


Program = Callable[[], None]
# Says where spans of memory begin from now on.
Relocation = Callable[[Sequence[int]], None]


@runtime_checkable
class Relocatable(Protocol):
    """A program that can go to other memory, between two runs, at the price of a few stores."""

    def relocation(self, spans: Sequence[tuple[int, int]]) -> Relocation:
        """What moves these spans of addresses [begin, end), which have nothing in common."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopCell:
    """An operand of a loop that is another tensor in another iteration: one of `tensors`, the first at the beginning.

    Calls name it by its stand-in, whose memory nobody touches; None where no call does. With `views` it is
    `views[count]` in each iteration, and behind the last one `views[once]` and those behind it again and again.
    """

    standin: Tensor | None
    tensors: tuple[Tensor, ...]
    views: tuple[Tensor, ...] = ()
    once: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LoopCalls:
    """A loop as data: before; leave unless the test holds; rest; all moves at once; count + 1; again.

    It goes on while count < limit, or while the single element of `tested` is not zero. A move (source, target) of
    cells by number makes the target what the source is.
    """

    cells: tuple[LoopCell, ...]
    moves: tuple[tuple[int, int], ...]
    before: tuple[Call, ...]
    rest: tuple[Call, ...]
    count: Tensor
    limit: int | None
    tested: Tensor | None
    at_most: int | None


class LoopState(Enum):
    """Where a loop stands: it may go on, its test has failed, or its test has held at `at_most`."""

    RUNNING = 0
    ENDED = 1
    BEYOND = 2


class LoopProgram(Protocol):
    """A loop that a backend runs by itself."""

    def begin(self) -> None:
        """Go back to the first iteration."""

    def run(self, iterations: int) -> LoopState:
        """Run at most so many iterations."""

    def place(self) -> tuple[int, tuple[Tensor, ...]]:
        """The count, and what each cell is."""


class Backend(Protocol):
    """A family of kernels."""

    @property
    def name(self) -> str:
        """Short name for options and reports, such as `llvm`."""

    def absence(self) -> str:
        """Why this backend cannot be used on this machine; empty when it can."""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why this backend does not claim the command on these specs; empty when it does."""

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        """The kernel for a command that `refusal` did not refuse."""

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        """Other kernels for it by name: results within `nnc.core.values.dtype.TOLERANCE`, in another time."""

    def program(self, calls: Sequence[Call]) -> Program:
        """One callable that runs `calls` (all of this backend) in order."""


@runtime_checkable
class LoopBackend(Protocol):
    """A backend that may run loops of its own calls by itself."""

    def loop(self, calls: LoopCalls) -> LoopProgram | None:
        """The loop as one program; None where it does not run this one by itself."""


@dataclass(frozen=True, slots=True)
class LayoutPreference:
    """A kernel would rather read the operand at this place in `layout`, which saves this share of its time."""

    place: int
    layout: Blocked
    share: float


@runtime_checkable
class WishingBackend(Protocol):
    """A backend with kernels that arrange operands before they read them, and claim those that are so arranged."""

    def preferences(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutPreference, ...]:
        """The operands that the kernel of a command on plain operands, which `refusal` did not refuse, arranges."""


@runtime_checkable
class TracedBackend(Protocol):
    """A backend that knows what each worker does, and how fast it can be."""

    def traced(self, calls: Sequence[Call]) -> Traced:
        """`program`, with the times of workers."""

    def peak(self, workers: int = 1) -> float:
        """Floating-point operations (f32) per second of workers that do nothing else, all at once, measured."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A backend and the kernel it offers: the variant of this name, or its first choice."""

    backend: Backend
    kernel: Kernel
    variant: str = ""

    def __str__(self) -> str:
        """`llvm`, or `llvm:winograd-4` for a variant."""
        return f"{self.backend.name}:{self.variant}" if self.variant else self.backend.name


Key = tuple[AnyCommand, Specs, Specs, str]
# What names of backends begin with whose kernels are for another processor than this one.
TARGET = "target:"


# What a kernel of eager code takes: objects, and a library of its own (docs/design/0018).
KERNEL_BYTES = 52 << 10


def cached_kernels() -> int:
    """How many kernels the process keeps for commands to come."""
    return SETTINGS.kept_kernel_bytes // KERNEL_BYTES


@dataclass(slots=True)
class Dispatcher(Uncopied):
    """The table of backends in order of preference, and the kernels made last: `SETTINGS.kept_kernel_bytes` of them."""

    instead: ClassVar[str] = "make a dispatcher and add() the backends"

    backends: dict[str, Backend] = field(default_factory=dict)
    _claims: TwoGenerations[Key, Claim] = field(default_factory=lambda: TwoGenerations(cached_kernels))
    _unmeasured: set[str] = field(default_factory=set)
    _targets: dict[str, Backend] = field(default_factory=dict)
    _make_target: Callable[[str], Backend] | None = None
    _packages: list[str] = field(default_factory=list)

    def add(self, backend: Backend, *, measured: bool = True, packages: Sequence[str] = ()) -> None:
        """Append a backend; earlier ones are preferred. `packages` are those whose versions its kernels depend on.

        One that is not `measured` is no candidate of autotune; the first of them is the oracle.
        """
        if backend.name in self.backends:
            raise BackendError("dispatch", got=f"a second backend named {backend.name}", need="unique names")
        self.backends[backend.name] = backend
        self._packages.extend(packages)
        if not measured:
            self._unmeasured.add(backend.name)

    def serve_targets(self, make: Callable[[str], Backend]) -> None:
        """`target:NAME` is what `make(NAME)` gives: kernels of another processor, which nobody has unless asked."""
        self._make_target = make

    @property
    def oracle(self) -> str:
        """The name of the backend whose values the others are compared with; empty where there is none."""
        return next((name for name in self.backends if name in self._unmeasured), "")

    @property
    def packages(self) -> tuple[str, ...]:
        """What the kernels of all backends depend on."""
        return tuple(self._packages)

    def backend(self, name: str) -> Backend:
        """The usable backend called `name`; BackendError with the reason otherwise."""
        chosen = self.backends.get(name) or self._target(name)
        if chosen is None:
            raise BackendError("backend", got=name, need="one of " + " ".join(self.backends))
        if reason := chosen.absence():
            raise BackendError("backend", got=name, need="a backend present on this machine", fix=reason)
        return chosen

    def _target(self, name: str) -> Backend | None:
        """The backend of a processor that libraries are made for; None for other names."""
        if self._make_target is None or not name.startswith(TARGET):
            return None
        if name not in self._targets:
            self._targets[name] = self._make_target(name.removeprefix(TARGET))
        return self._targets[name]

    def candidates(self, prefer: str = "") -> list[Backend]:
        """Usable backends for tensors of the host, `prefer` (checked) first."""
        return list(self.usable(prefer, frozenset({CPU.kind})))

    def usable(self, prefer: str = "", kinds: Collection[str] = ()) -> Iterator[Backend]:
        """The same one by one: a backend is looked for when those before it do not do.

        With `kinds` those that serve other kinds of devices alone are left out, but for `prefer`.
        """
        first = self.backend(prefer) if prefer else None
        if first is not None:
            yield first
        for value in self.backends.values():
            served = getattr(value, "serves", "")
            fits = not (kinds and served) or served in kinds
            if value is not first and fits and not value.absence():
                yield value

    def claim(self, command: AnyCommand, inputs: Specs, outputs: Specs, prefer: str = "") -> Claim:
        """The first backend that claims the command, with its kernel (made once per command and specs)."""
        key = (command, inputs, outputs, prefer)
        claim = self._claims.get(key)
        return self._claims.put(key, self.first(command, inputs, outputs, prefer)) if claim is None else claim

    def keep(self, command: AnyCommand, inputs: Specs, outputs: Specs, prefer: str, claim: Claim) -> None:
        """Have `claim` give this, which `first` would give, too."""
        self._claims.put((command, inputs, outputs, prefer), claim)

    def first(self, command: AnyCommand, inputs: Specs, outputs: Specs, prefer: str = "") -> Claim:
        """What `claim` gives, made anew."""
        reasons = []
        for backend in self.usable(prefer, kinds_of(inputs, outputs)):
            if reason := backend.refusal(command, inputs, outputs):
                reasons.append(f"{backend.name}: {reason}")
                continue
            return Claim(backend, backend.kernel(command, inputs, outputs))
        shown = ", ".join("–" if spec is None else str(spec) for spec in inputs)
        raise BackendError(command.op.name, got=shown, need="a backend that claims it", fix="; ".join(reasons))

    def server(self, command: AnyCommand, inputs: Specs, outputs: Specs, prefer: str = "") -> str:
        """The name of the first backend that claims the command; empty for none."""
        backends = self.usable(prefer, kinds_of(inputs, outputs))
        serving = (value.name for value in backends if not value.refusal(command, inputs, outputs))
        return next(serving, "")

    def preferences(
        self, command: AnyCommand, inputs: Specs, outputs: Specs, prefer: str = ""
    ) -> tuple[LayoutPreference, ...]:
        """The operands that the first backend that claims the command would rather read in another layout."""
        backends = self.usable(prefer, kinds_of(inputs, outputs))
        serving = (value for value in backends if not value.refusal(command, inputs, outputs))
        first = next(serving, None)
        return first.preferences(command, inputs, outputs) if isinstance(first, WishingBackend) else ()

    def claims(self, command: AnyCommand, inputs: Specs, outputs: Specs, prefer: str = "") -> list[Claim]:
        """All claims to measure, in order of preference, variants behind the first choice of their backend.

        Those of backends that are not measured count where there are no others, or the caller prefers them.
        """
        claims = []
        for backend in self.usable(prefer, kinds_of(inputs, outputs)):
            if not backend.refusal(command, inputs, outputs):
                claims.append(Claim(backend, backend.kernel(command, inputs, outputs)))
                others = backend.variants(command, inputs, outputs)
                claims.extend(Claim(backend, kernel, name) for name, kernel in others.items())
        unmeasured = self._unmeasured - {prefer}
        return [claim for claim in claims if claim.backend.name not in unmeasured] or claims


def kinds_of(inputs: Specs, outputs: Specs) -> frozenset[str]:
    """The kinds of devices that tensors of these specs lie on; the host's where there are none."""
    kinds = frozenset([spec.device.kind for spec in (*inputs, *outputs) if spec is not None])
    return kinds or frozenset({CPU.kind})


def outside_host(*specs: TensorSpec | None) -> str:
    """Why a backend whose kernels work in host memory refuses these; empty when it need not."""
    return "tensors outside host memory" if any(map(_is_outside, specs)) else ""


def _is_outside(spec: TensorSpec | None) -> bool:
    return spec is not None and spec.device.kind != CPU.kind


def in_blocks(*specs: TensorSpec | None) -> str:
    """Why a backend that reads axes in order refuses these; empty when it need not."""
    return "an operand in blocks" if any(spec is not None and spec.plain is not spec for spec in specs) else ""


def other_elements(specs: Specs, dtypes: Collection[DType]) -> str:
    """Why a library for arrays of these element types in host memory refuses these; empty when it need not."""
    present = [spec for spec in specs if spec is not None]
    refused = outside_host(*present) or in_blocks(*present)
    return refused or next((f"element type {spec.dtype}" for spec in present if spec.dtype not in dtypes), "")


def one_by_one(calls: Sequence[Call]) -> Program:
    """The program of a backend that joins nothing: its kernels one after another."""
    fixed = tuple(calls)

    def run() -> None:
        for call in fixed:
            call.kernel.run(call.inputs, call.outputs, call.workspace)

    return run


_OF_PROCESS = Dispatcher()

if TYPE_CHECKING:
    DISPATCHER = _OF_PROCESS
else:

    def __getattr__(name: str) -> object:
        """`DISPATCHER`, the table of this process, with its backends from the first time that it is asked for."""
        if name != "DISPATCHER":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        wire()
        return _OF_PROCESS
