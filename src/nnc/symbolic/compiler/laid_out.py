"""Laying out: the concrete graph of a planned one, over an arena that is there and the caller's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnc.classes import dataclass
from nnc.concrete import ConcreteGraph, Place
from nnc.core.precautions.origin import caller_origin, inherited_origin
from nnc.core.precautions.reading import MappedFile
from nnc.core.values.device import HOST
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import SymbolError
from nnc.symbolic.compiler.bindings import Bindings
from nnc.symbolic.compiler.build import GraphBuilder
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.scratch import planned_kernels
from nnc.symbolic.compiler.shared_arena import Arena
from nnc.symbolic.records import TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class LaidOutProgram:
    """What runs, the tensors of its roots and the mapped files among them.

    Where `announced`, it says that it begins to write the caller's tensors: an exec in front of that may raise.
    """

    concrete: ConcreteGraph
    tensors: dict[TensorKey, Tensor]
    files: tuple[MappedFile, ...]
    announced: bool


def laid_out(
    planned: PlannedGraph,
    bindings: Bindings,
    arena: Arena,
    storages: Mapping[str, Storage],
    deterministic: bool,
    begin: Callable[[], None],
) -> LaidOutProgram:
    """The program in these storages of the arena; `begin` is called before the first of the caller's roots is written.

    SymbolError for a root that was given without a tensor.
    """
    tensors = _named(planned, bindings)
    places: dict[TensorKey, Place] = {**tensors}
    files = dict.fromkeys(tensor.storage.file for tensor in tensors.values())
    concrete = ConcreteGraph(backend=planned.backend, deterministic=deterministic, runs=arena.runs)
    base, written = arena.base, bindings.written
    offsets = {id(life): offset + base * (life.memory == HOST) for life, offset in planned.layout.placed()}
    announced = bool(written) and planned.streams == 1 and _may_break_off(planned)
    first = begin if announced else None
    builder = GraphBuilder(planned, storages, base, offsets, places, concrete, begin=first, written=written)
    with inherited_origin(caller_origin()):  # one caller of all that is added
        builder.build()
    if bindings.copies:
        builder.announce()
    for new, old in bindings.copies:
        builder.copy(builder.place(new), builder.place(old))
    # Nothing moves outside of loops.
    tensors.update((key, place) for key, place in places.items() if isinstance(place, Tensor))
    concrete.set_default_streams(planned.streams)
    return LaidOutProgram(concrete, tensors, tuple(file for file in files if file is not None), announced)


def _named(planned: PlannedGraph, bindings: Bindings) -> dict[TensorKey, Tensor]:
    """The tensors of the roots that are given; SymbolError for one that has none yet."""
    tensors: dict[TensorKey, Tensor] = {}
    for root, tensor in bindings.tensors.items():
        if tensor is None:
            got = f"{planned.graph.label(root)} without a tensor"
            raise SymbolError("compiled", got=got, need="every given symbol bound", fix="rebind()")
        tensors[root] = tensor
    return tensors


def _may_break_off(planned: PlannedGraph) -> bool:
    """Whether an exec may raise; else nothing need cut the native program to say that it begins to write."""
    return bool(planned.inner) or any(kernel.breaks_off for kernel in planned_kernels(planned))
