"""Limits on the arena: of all kinds of memory together, or of each device.

memory_limit=1 << 30                             all arenas together
memory_limit={"cuda:0": 1 << 30, "cpu": 1 << 20} each for itself; those that are not named have none
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.device import device_of
from nnc.symbolic.compiler.place.memory_statement import ArenaLimit, MemoryStatement, checked_limit, in_memory
from nnc.symbolic.compiler.repeat.budget import Compilation
from nnc.symbolic.records import TensorKey

ALL = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes by kind of memory; `ALL` stands for all together."""

    most: Mapping[str, int]

    @classmethod
    def of(cls, limit: ArenaLimit | None) -> Limits:
        """UsageError for what is no number of bytes, DeviceError for what is no device."""
        if limit is None:
            return cls({})
        if isinstance(limit, Mapping):
            return cls({str(device_of(device)): checked_limit(nbytes) for device, nbytes in limit.items()})
        return cls({ALL: checked_limit(limit)})

    def exceeded(self, statement: MemoryStatement) -> str | None:
        """The kind of memory of which a program takes more than it may, by the largest factor; None for none."""
        over = {kind: taken_of(statement, kind) / max(most, 1) for kind, most in self.most.items()}
        over = {kind: factor for kind, factor in over.items() if taken_of(statement, kind) > self.most[kind]}
        return max(over, key=lambda kind: over[kind]) if over else None


def taken_of(statement: MemoryStatement, kind: str) -> int:
    """The bytes of an arena, or of all but files."""
    return statement.arena if kind == ALL else statement.arenas.get(kind, 0)


def counted(compilation: Compilation, kind: str) -> Compilation:
    """What a search starts from where the bytes of one kind of memory count alone, or all but those of files."""
    files = {memory for memory in compilation.arenas if device_of(memory).is_file}
    if kind == ALL and not files:
        return compilation
    tensors, execs, uses = compilation.graph.tensors, compilation.graph.execs, compilation.uses

    def of_kind(key: TensorKey) -> bool:
        memory = str(tensors[key].spec.device)
        return memory == kind or (kind == ALL and memory not in files)

    nbytes = {root: size if of_kind(root) else 0 for root, size in uses.nbytes.items()}
    scratch = {key: size if of_kind(execs[key].outputs[0]) else 0 for key, size in uses.scratch.items()}
    arena = in_memory(compilation.arenas) if kind == ALL else compilation.arenas.get(kind, 0)
    return replace(compilation, uses=replace(uses, nbytes=nbytes, scratch=scratch), arena=arena)
