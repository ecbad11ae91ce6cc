"""Drafts: graphs of a file behind import and passes, in front of what is decided for each size anew.

    elements of shapes → graph → passes        once for all sizes that take the same way: a template
    parts of a batch → blocks → plan           for each size

A file is drafted as it is for the first sizes that it runs at. At the second ones axes that differ are open: their
sizes remember where they come from (`nnc.core.values.sizes`), and the draft serves all sizes that meet its guards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from weakref import WeakValueDictionary

import numpy as np

import onnx
from nnc.classes import dataclass
from nnc.core.values.tensor import Tensor
from nnc.onnx.file import OnnxFile
from nnc.onnx.importer import OnnxImporter
from nnc.onnx.node import Array, Elements
from nnc.onnx.node_values import OnnxValue
from nnc.onnx.size_elements import has_sizes, kind_of
from nnc.symbolic import Symbol, SymbolicGraph, TensorKey
from nnc.symbolic.compiler import KnownOrders
from nnc.symbolic.passes import Beforehand
from nnc.symbolic.sharing.openings import Opening, OpenShapes, Shapes
from nnc.symbolic.sharing.sized_answers import KnownClaims, SizedClaims
from nnc.symbolic.sharing.templates import GraphInstance, GraphRenewal, GraphTemplate

# Where the elements of a bound symbol are: in the file, or at hand.
Bound = onnx.TensorProto | np.ndarray


@dataclass(slots=True, eq=False)
class GraphDraft:
    """A graph with what it is bound to. What `before` computes and what is `early` are the same in each run.

    `names` are those of bound elements that somebody has asked for, but for those of the `own`, which are of these
    sizes alone. All that it is bound to takes `nbytes`. Whoever holds the `importer` has the elements of the file as
    arrays. A draft of a template knows more of its kernels where it is `sized`.
    """

    file: OnnxFile
    graph: SymbolicGraph
    inputs: Mapping[str, Symbol]
    outputs: tuple[OnnxValue, ...]
    wanted: tuple[Symbol, ...]
    before: Beforehand
    early: tuple[Symbol, ...]
    bound: Mapping[TensorKey, Bound]
    names: dict[TensorKey, str]
    own: frozenset[TensorKey]
    importer: OnnxImporter | None
    nbytes: int
    orders: KnownOrders = field(default_factory=KnownOrders)
    sized: SizedClaims | None = None
    _tensors: WeakValueDictionary[TensorKey, Tensor] = field(default_factory=WeakValueDictionary)

    @classmethod
    def of(
        cls,
        importer: OnnxImporter,
        bound: Mapping[Symbol, Array],
        inputs: Mapping[str, Symbol],
        outputs: tuple[OnnxValue, ...],
        wanted: tuple[Symbol, ...],
        before: Beforehand,
        *,
        is_early: bool,
    ) -> GraphDraft:
        """Of what an importer has built, behind the passes."""
        messages = importer.messages()
        sources = {symbol.key: messages.get(symbol, array) for symbol, array in bound.items()}
        early = tuple(bound) if is_early else ()
        file, graph = importer.file, importer.graph
        nbytes = sum(array.nbytes for array in bound.values())
        return cls(file, graph, inputs, outputs, wanted, before, early, sources, {}, frozenset(), importer, nbytes)

    def array(self, key: TensorKey) -> Array:
        """The elements of a bound symbol."""
        bound = self.bound[key]
        return bound if isinstance(bound, np.ndarray) else self.file.array(bound)

    def name(self, symbol: Symbol) -> str:
        """The name of its elements, for weights that programs share."""
        key = symbol.key
        if key in self.names:
            return self.names[key]
        bound = self.bound[key]
        name = self.file.weights.name(self.array(key), 0 if isinstance(bound, np.ndarray) else id(bound))
        return name if key in self.own else self.names.setdefault(key, name)

    def tensors(self, symbols: Collection[Symbol]) -> dict[Symbol, Tensor]:
        """The elements of bound symbols: one tensor for all programs that read them."""
        return {symbol: self._tensor(symbol.key) for symbol in symbols}

    def _tensor(self, key: TensorKey) -> Tensor:
        tensor = None if key in self.own else self._tensors.get(key)
        if tensor is None:
            tensor = Tensor.from_numpy(self.array(key))
            if key not in self.own:
                self._tensors[key] = tensor
        return tensor


@dataclass(frozen=True, slots=True, eq=False)
class DraftTemplate:
    """A draft for all sizes that meet the guards of its `shapes`."""

    shapes: OpenShapes
    draft: GraphDraft
    graph: GraphTemplate
    before: GraphTemplate
    computed: Mapping[TensorKey, Elements]
    decisions: tuple[tuple[Elements, bool], ...]
    claims: KnownClaims

    def at(self, shapes: Shapes) -> GraphDraft | None:
        """The draft for these shapes; None where the file takes another way for them."""
        numbers = self.shapes.numbers(shapes)
        if numbers is None:
            return None
        renewal = GraphRenewal(numbers)
        if any(bool(renewal.of(elements).array()) != outcome for elements, outcome in self.decisions):
            return None
        arrays = {key: renewal.of(elements).array() for key, elements in self.computed.items()}
        return self._moved(self.graph.instance(numbers), self.before.at(numbers), arrays, renewal)

    def _moved(
        self, instance: GraphInstance, before: SymbolicGraph, arrays: Mapping[TensorKey, Array], renewal: GraphRenewal
    ) -> GraphDraft:
        """The draft on copies of its graphs."""
        draft, work, graph = self.draft, self.draft.before, instance.graph

        def here(symbol: Symbol) -> Symbol:
            return graph.symbol(symbol.key)

        beforehand = Beforehand(
            before,
            {here(outer): before.symbol(inner.key) for outer, inner in work.parameters.items()},
            {here(outer): before.symbol(inner.key) for outer, inner in work.results.items()},
        )
        return replace(
            draft,
            graph=graph,
            inputs={name: here(symbol) for name, symbol in draft.inputs.items()},
            outputs=tuple(_renewed(value, renewal) for value in draft.outputs),
            wanted=tuple(map(here, draft.wanted)),
            before=beforehand,
            early=tuple(map(here, draft.early)),
            bound={**draft.bound, **arrays},
            own=frozenset(arrays),
            sized=SizedClaims(self.claims, instance),
        )


def _renewed(value: OnnxValue, renewal: GraphRenewal) -> OnnxValue:
    """An output whose elements may be sizes; a symbol has the same key in all graphs."""
    if value.items is not None:
        return replace(value, items=tuple(_renewed(item, renewal) for item in value.items))
    if value.array is None or not has_sizes(value.array):
        return value
    elements = [renewal.of(element) for element in value.array.reshape(-1).tolist()]
    return replace(value, array=np.array(elements, kind_of(value.array)).reshape(value.array.shape))


def template_of(opening: Opening, draft: GraphDraft, backend: str) -> DraftTemplate:
    """Of what was drafted at the shapes of an opening, which is closed, for this backend."""
    shapes, importer = opening.close(), draft.importer
    assert importer is not None
    computed = {symbol.key: elements for symbol, elements in importer.computed.items()}
    graphs = GraphTemplate.of(draft.graph), GraphTemplate.of(draft.before.graph)
    return DraftTemplate(
        shapes, replace(draft, importer=None), *graphs, computed, tuple(importer.decisions), KnownClaims(backend)
    )
