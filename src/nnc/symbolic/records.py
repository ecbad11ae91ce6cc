"""What a symbolic graph keeps of its tensors and execs: records in arenas, without memory."""

from __future__ import annotations

from typing import NewType

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import Shape, TensorSpec

TensorKey = NewType("TensorKey", int)
ExecKey = NewType("ExecKey", int)


@dataclass(frozen=True, slots=True)
class AliasOf:
    """Where an alias lies in its root: `offset` and `strides` in elements."""

    root: TensorKey
    offset: int
    strides: Shape


@dataclass(frozen=True, slots=True, eq=False)
class TensorSymbol:
    """A tensor without memory; `origin` is the user's line that made it.

    Where no exec writes a root, its places hold `fill` before the first exec reads it; with None they hold what comes
    from outside. An alias has no `fill` of its own.
    """

    spec: TensorSpec
    name: str = ""
    alias: AliasOf | None = None
    origin: str = ""
    fill: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExecSymbol:
    """A command applied to symbols; absent optional inputs are None.

    Passes leave an exec with `optimize` False as it is: they neither rewrite, merge nor fuse it. Pruning still takes
    it out when nothing that is wanted needs it.
    """

    command: AnyCommand
    inputs: tuple[TensorKey | None, ...]
    outputs: tuple[TensorKey, ...]
    name: str = ""
    origin: str = ""
    optimize: bool = True

    @property
    def path(self) -> str:
        """The scopes it was made in: `encoder.block1` of `encoder.block1.tanh`."""
        return self.name.rpartition(".")[0]

    @property
    def title(self) -> str:
        """`encoder.block1 · tanh`: where it stands, and its operator or what it is there for."""
        path, _, last = self.name.rpartition(".")
        return f"{path} · {last}" if path else last or self.command.op.name


@dataclass(frozen=True, slots=True)
class Dependency:
    """Why one exec follows another: `tensor` (a root) is written by the first and read by the second.

    Without a tensor the order was given by `connect`.
    """

    tensor: TensorKey | None = None
