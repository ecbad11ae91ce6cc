"""The caller's tensors of a program: which roots they are, and what may not lie in one memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.spec import contiguous_strides
from nnc.core.values.tensor import Tensor
from nnc.errors import ShapeError, UsageError
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class Bindings:
    """The caller's tensors: per root, with None for one that `rebind` names later.

    Each new value in `carried` is computed in the tensor of an old one; `copies` (new, old) come behind the run.
    A run writes the roots `written`.
    """

    tensors: Mapping[TensorKey, Tensor | None]
    carried: Mapping[TensorKey, TensorKey]
    copies: tuple[tuple[TensorKey, TensorKey], ...]
    written: frozenset[TensorKey] = frozenset()

    def check(self, graph: SymbolicGraph) -> None:
        """UsageError when two roots have memory in common and a run writes one of them: the plan counts on two."""
        distinct = ((root, tensor) for root, tensor in self.tensors.items() if root not in self.carried)
        named = [(root, tensor) for root, tensor in distinct if tensor is not None]
        extents = sorted((*tensor.extent, number) for number, (_, tensor) in enumerate(named))
        near: list[int] = []
        for begin, _, number in extents:
            root, tensor = named[number]
            near = [other for other in near if named[other][1].extent[1] > begin]
            for other_root, other in (named[other] for other in near):
                if (root in self.written or other_root in self.written) and tensor.overlaps(other):
                    got = f"{graph.label(root)} and {graph.label(other_root)} in one memory, which a run writes"
                    raise UsageError("bind", got=got, need="a tensor for each", fix="carry a new value into an old one")
            near.append(number)

    def renewed(self, named: Mapping[TensorKey, Tensor | None]) -> Bindings:
        """With other tensors for some roots, and for what is computed in these."""
        tensors = {**self.tensors, **named}
        tensors.update({new: tensors[old] for new, old in self.carried.items()})
        return replace(self, tensors=tensors)


def own_all(graph: SymbolicGraph, tensors: Mapping[Symbol, Tensor | None] | None) -> dict[TensorKey, Tensor | None]:
    """By key; an alias that is all of its root stands for the root."""
    owned: dict[TensorKey, Tensor | None] = {}
    for symbol, tensor in (tensors or {}).items():
        key = graph.own(symbol)
        root, region = graph.root(key), graph.region(key)
        whole, spec = graph.tensors[root].spec, graph.tensors[key].spec
        fits = tensor is None or (tensor.shape, tensor.dtype, tensor.is_contiguous) == (spec.shape, spec.dtype, True)
        if fits and spec.elements == whole.elements and region.strides == contiguous_strides(spec.shape):
            key, tensor = root, tensor if tensor is None or root == key else tensor.reshape(whole.shape)
        owned[key] = tensor
    return owned


def check_bindings(graph: SymbolicGraph, bound: Mapping[TensorKey, Tensor | None]) -> None:
    """ShapeError unless each is a whole root, with a tensor of its shape and type or none yet."""
    for key, tensor in bound.items():
        spec = graph.tensors[key].spec
        same = tensor is None or tensor.spec.fits(spec)
        if graph.root(key) == key and same:
            continue
        got = "an alias" if tensor is None else str(tensor.spec)
        raise ShapeError(
            "bind", got=f"{got} for {graph.label(key)}", need=f"a contiguous tensor of {spec} for all of a root"
        )
