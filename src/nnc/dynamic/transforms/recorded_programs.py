"""Programs of recorded functions: from the disk, or behind passes and planned."""

from __future__ import annotations

from nnc.dynamic.transforms.compile_options import CompileOptions
from nnc.dynamic.transforms.recording import FunctionDraft
from nnc.symbolic import Compiled, compile
from nnc.symbolic.kept.kept_graphs import CachedGraph, GraphPlace, RequestedGraph
from nnc.symbolic.sharing.rank_programs import order_among_ranks


def first_program(draft: FunctionDraft, options: CompileOptions) -> Compiled | CachedGraph:
    """The program of what a function did at plain sizes: from the disk, or made, which is kept when it is laid out.

    The graph that its commands built is the key: whatever the function read made another graph, or is no part of it.
    """
    constants = draft.constants
    asked = RequestedGraph(draft.graph, (), (), (*constants, *draft.inputs, *draft.outputs))
    decisions = "function", options.limit, options.deterministic
    place = None if options.autotune else GraphPlace.of(asked, options.backend, decisions)

    def anew() -> Compiled:
        return compiled(draft.simplified(options.backend), options)

    program = anew() if place is None else place.program(anew)
    return program.rebind(constants) if isinstance(program, CachedGraph) else program


def compiled(draft: FunctionDraft, options: CompileOptions) -> Compiled:
    """What a function did, behind passes, planned."""
    order_among_ranks(draft.graph)
    return compile(
        draft.graph,
        draft.outputs,
        given={**draft.constants, **dict.fromkeys(draft.inputs)},
        bind=dict.fromkeys(draft.outputs),
        backend=options.backend,
        memory_limit=options.limit,
        autotune=options.autotune,
        deterministic=options.deterministic,
        orders=draft.orders,
        claims=draft.claims,
    )
