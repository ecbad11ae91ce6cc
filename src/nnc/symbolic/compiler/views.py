"""Places of views in the memory of their roots."""

from __future__ import annotations

from nnc.concrete import (
    Carry,
    Multiview,
    Phi,
    Place,
    Reference,
    synchronize_to_multiview,
)
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import LayoutError
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import TensorKey


def view_root(graph: SymbolicGraph, key: TensorKey, root: Tensor) -> Tensor:
    """The part of `root` that an alias names; LayoutError for memory that has gaps."""
    if not root.is_contiguous:
        raise LayoutError(
            "bind",
            got=f"strides {list(root.strides)} for {graph.label(graph.root(key))}, which has aliases",
            need="contiguous memory",
            fix="bind a contiguous copy",
        )
    region = graph.region(key)
    return root.view(graph.tensors[key].spec, region.offset, region.strides)


def part_of(whole: Place, spec: TensorSpec, offset: int, strides: Shape) -> Place:
    """The part of a place that begins so many elements behind it."""
    if isinstance(whole, Tensor):
        return whole.view(spec, offset, strides)
    if whole.spec == spec and not offset:
        return whole
    assert isinstance(whole, Multiview | Phi | Carry)
    return synchronize_to_multiview(whole, Reference(spec, offset, strides))
