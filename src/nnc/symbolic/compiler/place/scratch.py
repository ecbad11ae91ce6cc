"""Scratch memory of kernels: what they ask for, and copies of operands that lie in memory with gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnc.core.running.dispatch import DISPATCHER, Claim, Kernel
from nnc.core.values.spec import contiguous_strides
from nnc.core.values.storage import aligned
from nnc.errors import UsageError
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey


def kernel_scratch(graph: SymbolicGraph, key: ExecKey, backend: str, claims: Mapping[ExecKey, Claim]) -> int:
    """Bytes of the workspace of an exec's kernel, with what it copies operands with gaps to behind it."""
    record, kernel = graph.execs[key], kernel_of(graph, key, backend, claims)
    read, written = _with_gaps(graph, record.inputs), _with_gaps(graph, record.outputs)
    copied = kernel.copied_bytes(read, written) if read or written else 0
    return aligned(kernel.workspace_bytes) + copied if copied else kernel.workspace_bytes


def worker_scratch(planned: PlannedGraph) -> int:
    """Bytes that each worker needs for itself, for the kernel that wants most of them; bodies included."""
    inner = [body for bodies in planned.inner.values() for body in bodies]
    own = planned_kernels(planned)
    return max((*map(worker_scratch, inner), *(kernel.worker_bytes for kernel in own)), default=0)


def planned_kernels(planned: PlannedGraph) -> list[Kernel]:
    """Who runs the execs without bodies, in order."""
    graph, backend, claims = planned.graph, planned.backend, planned.claims
    return [kernel_of(graph, key, backend, claims) for key in planned.order if key not in planned.inner]


def kernel_of(graph: SymbolicGraph, key: ExecKey, backend: str, claims: Mapping[ExecKey, Claim]) -> Kernel:
    """Who runs an exec: by the claims that are known, else the dispatcher is asked."""
    if key in claims:
        return claims[key].kernel
    record = graph.execs[key]
    inputs = tuple(None if tensor is None else graph.tensors[tensor].spec for tensor in record.inputs)
    outputs = tuple(graph.tensors[tensor].spec for tensor in record.outputs)
    try:
        return DISPATCHER.claim(record.command, inputs, outputs, backend).kernel
    except UsageError as error:
        error.origin = error.origin or record.origin
        raise


def _with_gaps(graph: SymbolicGraph, tensors: Sequence[TensorKey | None]) -> frozenset[int]:
    """The positions of aliases whose elements do not lie one behind the other."""
    present = [(position, key) for position, key in enumerate(tensors) if key is not None and graph.root(key) != key]
    return frozenset(
        position
        for position, key in present
        if graph.region(key).strides != contiguous_strides(graph.tensors[key].spec.shape)
    )
