"""Dispatch: the first backend that claims a command wins; claims are made once; refusals say why."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from nnc.core.running.deferred import DeferredBackend
from nnc.core.running.dispatch import KERNEL_BYTES, Call, Dispatcher, Program, Specs, Tensors
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import F32
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError
from nnc.graph import NoAttributes, Op, Registry

OP = Op("work", NoAttributes, ("x",), registry=Registry("test"))
COMMAND = Command(OP, NoAttributes())
F32S: Specs = (spec((3,)),)
F64S: Specs = (spec((3,), "f64"), None)


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """A kernel that does nothing."""

    workspace_bytes: int = 0

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Do nothing."""


@dataclass(slots=True, eq=False)
class Picky:
    """A backend that takes f32 only, or nothing when absent."""

    name: str
    missing: str = ""
    floats_only: bool = True
    others: tuple[str, ...] = ()
    made: list[AnyCommand] = field(default_factory=list)

    def absence(self) -> str:
        return self.missing

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        wide = any(one is not None and one.dtype is not F32 for one in inputs)
        return "f32 only" if self.floats_only and wide else ""

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Nothing:
        self.made.append(command)
        return Nothing()

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> dict[str, Nothing]:
        return {name: Nothing() for name in self.others}

    def program(self, calls: Sequence[Call]) -> Program:
        return lambda: None


def dispatcher(*backends: Picky) -> Dispatcher:
    made = Dispatcher()
    for backend in backends:
        made.add(backend)
    return made


def test_the_first_claim_wins() -> None:
    fast, plain = Picky("fast"), Picky("plain", floats_only=False)
    table = dispatcher(fast, plain)
    assert table.claim(COMMAND, F32S, F32S).backend is fast
    assert table.claim(COMMAND, F64S, F32S).backend is plain
    assert table.claim(COMMAND, F32S, F32S, prefer="plain").backend is plain
    assert table.claim(COMMAND, F64S, F32S, prefer="fast").backend is plain


def test_absent_backends_claim_nothing() -> None:
    table = dispatcher(Picky("fast", missing="no such processor"), Picky("plain"))
    assert table.claim(COMMAND, F32S, F32S).backend.name == "plain"
    assert [backend.name for backend in table.candidates()] == ["plain"]


def test_a_kernel_is_made_once_for_equal_commands_and_specs() -> None:
    backend = Picky("fast")
    table = dispatcher(backend)
    first = table.claim(COMMAND, F32S, F32S)
    again = table.claim(Command(OP, NoAttributes()), (spec((3,)),), (spec((3,)),))
    assert first is again
    table.claim(COMMAND, (spec((4,)),), (spec((4,)),))
    assert len(backend.made) == 2


def test_threads_share_one_claim() -> None:
    table, claims = dispatcher(Picky("fast")), []
    barrier = threading.Barrier(4)

    def claim() -> None:
        barrier.wait(30)
        claims.append(table.claim(COMMAND, F32S, F32S))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, claims))) == 1


def test_when_nobody_claims_every_backend_says_why() -> None:
    table = dispatcher(Picky("fast"), Picky("plain"))
    with pytest.raises(BackendError) as caught:
        table.claim(COMMAND, F64S, F32S)
    assert str(caught.value) == (
        "work: got f64[3], –; need a backend that claims it. Fix: fast: f32 only; plain: f32 only"
    )


def test_all_claims_come_in_order_variants_behind_their_backend() -> None:
    table = dispatcher(Picky("fast", others=("wide", "deep")), Picky("gone", missing="x"), Picky("plain"))
    assert list(map(str, table.claims(COMMAND, F32S, F32S))) == ["fast", "fast:wide", "fast:deep", "plain"]
    assert table.claims(COMMAND, F64S, F32S) == []
    assert table.claim(COMMAND, F32S, F32S).variant == ""


def test_claims_of_an_unmeasured_backend_count_where_there_are_no_others() -> None:
    table = dispatcher(Picky("fast"))
    table.add(Picky("plain", floats_only=False), measured=False)
    assert list(map(str, table.claims(COMMAND, F32S, F32S))) == ["fast"]
    assert list(map(str, table.claims(COMMAND, F32S, F32S, prefer="plain"))) == ["plain", "fast"]
    assert list(map(str, table.claims(COMMAND, F64S, F32S))) == ["plain"]
    assert table.claim(COMMAND, F64S, F32S).backend.name == "plain"


def test_unknown_and_absent_backends_by_name() -> None:
    table = dispatcher(Picky("fast", missing="no such processor"), Picky("plain"))
    with pytest.raises(BackendError, match="backend: got cudnn; need one of fast plain"):
        table.claim(COMMAND, F32S, F32S, prefer="cudnn")
    with pytest.raises(BackendError, match="got fast; need a backend present on this machine. Fix: no such processor"):
        table.backend("fast")


def test_names_are_unique() -> None:
    with pytest.raises(BackendError, match="got a second backend named fast; need unique names"):
        dispatcher(Picky("fast"), Picky("fast"))


def test_a_deferred_backend_is_made_once_when_it_is_first_asked() -> None:
    made: list[Picky] = []

    def make() -> Picky:
        made.append(Picky("fast"))
        return made[-1]

    table = Dispatcher()
    table.add(DeferredBackend("fast", make))
    table.add(Picky("plain", floats_only=False))
    assert made == []
    assert table.claim(COMMAND, F64S, F32S).backend.name == "plain"
    claim = table.claim(COMMAND, F32S, F32S)
    assert claim.backend.name == "fast"
    claim.backend.program([])()
    assert [backend.made for backend in made] == [[COMMAND]]


def test_a_deferred_backend_is_made_once_for_all_threads() -> None:
    """Of an engine that a process has once there may not be two: whoever asks first makes it, the others wait."""
    made: list[Picky] = []

    def make() -> Picky:
        time.sleep(0.02)
        made.append(Picky("fast"))
        return made[-1]

    backend, start = DeferredBackend("fast", make), threading.Barrier(8)

    def ask() -> None:
        start.wait()
        backend.kernel(COMMAND, F32S, F32S)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(backend.made) for backend in made] == [8]


def test_importing_the_package_imports_no_backend() -> None:
    program = "import sys, nnc; print([name for name in sys.modules if name.startswith(('nnc.backends', 'llvmlite'))])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_kernels_that_nobody_asks_for_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "kept_kernel_bytes", 8 * KERNEL_BYTES)
    dispatcher = Dispatcher()
    dispatcher.add(Picky("one"))
    first = dispatcher.claim(COMMAND, F32S, F32S)
    for size in range(4, 50):
        dispatcher.claim(COMMAND, (spec((size,)),), F32S)
        assert dispatcher.claim(COMMAND, F32S, F32S) is first
    assert len(dispatcher._claims) <= 8
