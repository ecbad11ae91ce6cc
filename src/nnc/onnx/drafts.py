"""Drafts: graphs of a file behind import and passes, in front of what is decided for each size anew.

    elements of shapes → graph → passes        once for all sizes that take the same way: a template
    parts of a batch → blocks of weights       once for all of these at which kernels wish for the same blocks
    plan → program                             for each size

A file is drafted as it is for the first sizes that it runs at. At the second ones axes that differ are open: their
sizes remember where they come from (`nnc.core.values.sizes`), and the draft serves all sizes that meet its guards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import cast
from weakref import WeakValueDictionary

import numpy as np

import onnx
from nnc.classes import dataclass
from nnc.core.running.dispatch import LayoutPreference, Specs
from nnc.core.values.derived import Formulas, Known
from nnc.core.values.sizes import Numbers, SizeTrace, deciding_sizes
from nnc.core.values.spec import Blocked
from nnc.core.values.tensor import Tensor
from nnc.errors import NncError
from nnc.onnx.file import OnnxFile
from nnc.onnx.importer import OnnxImporter
from nnc.onnx.node import Array, Elements
from nnc.onnx.node_values import OnnxValue
from nnc.onnx.size_elements import has_sizes, kind_of
from nnc.symbolic import Symbol, SymbolicGraph, TensorKey
from nnc.symbolic.compiler import KnownOrders
from nnc.symbolic.passes import Beforehand, wished_layouts
from nnc.symbolic.records import ExecKey
from nnc.symbolic.sharing.openings import Opening, OpenShapes, Shapes
from nnc.symbolic.sharing.sized_answers import KnownClaims, SizedClaims
from nnc.symbolic.sharing.templates import GraphInstance, GraphRenewal, GraphTemplate

# Where the elements of a bound symbol are: in the file, or at hand.
Bound = onnx.TensorProto | np.ndarray
# What an exec wishes for; None where that is to be asked.
KnownWishes = Callable[[ExecKey], tuple[LayoutPreference, ...] | None]
Wishes = tuple[tuple[ExecKey, Specs, Mapping[int, Blocked]], ...]
# Templates with other parts or blocks that are kept for those of one draft.
MOST_LAID = 16


@dataclass(slots=True, eq=False)
class GraphDraft:
    """A graph with what it is bound to. What `before` computes and what is `early` are the same in each run.

    `names` are those of bound elements that somebody has asked for, but for those of the `own`, which are of these
    sizes alone. All that it is bound to takes `nbytes`, of which
    `own_nbytes` lie where the file was read to. Whoever holds the `importer` has the elements of the file as
    arrays. A draft of a template knows more of its kernels where it is `sized`. Results of
    `before` have the names `work`, as far as somebody has asked.
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
    own_nbytes: int
    orders: KnownOrders = field(default_factory=KnownOrders)
    sized: SizedClaims | None = None
    work: dict[TensorKey, str] = field(default_factory=dict)
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
        own = sum(
            bound[symbol].nbytes for symbol, each in messages.items() if id(each) in file.contents and symbol in bound
        )
        return cls(file, graph, inputs, outputs, wanted, before, early, sources, {}, frozenset(), importer, nbytes, own)

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
            bound = self.bound[key]
            tensor = Tensor.from_numpy(bound) if isinstance(bound, np.ndarray) else self.file.tensor(bound)
            if key not in self.own:
                self._tensors[key] = tensor
        return tensor


Lay = Callable[[GraphDraft, KnownWishes | None], GraphDraft]


@dataclass(frozen=True, slots=True, eq=False)
class GraphsTemplate:
    """The graph of a draft and that of what is computed beforehand, with sizes in them."""

    draft: GraphDraft
    graph: GraphTemplate
    before: GraphTemplate

    @classmethod
    def of(cls, draft: GraphDraft) -> GraphsTemplate:
        """Of a draft whose trace is closed."""
        return cls(draft, GraphTemplate.of(draft.graph), GraphTemplate.of(draft.before.graph))

    def at(self, numbers: Numbers, given: GivenElements) -> tuple[GraphDraft, GraphInstance]:
        """The draft with these numbers on copies of its graphs, and the copy of its graph."""
        instance = self.graph.instance(numbers)
        draft, work, graph, before = self.draft, self.draft.before, instance.graph, self.before.at(numbers)

        def here(symbol: Symbol) -> Symbol:
            return graph.symbol(symbol.key)

        beforehand = Beforehand(
            before,
            {here(outer): before.symbol(inner.key) for outer, inner in work.parameters.items()},
            {here(outer): before.symbol(inner.key) for outer, inner in work.results.items()},
        )
        made = replace(
            draft,
            graph=graph,
            inputs={name: here(symbol) for name, symbol in draft.inputs.items()},
            outputs=given.outputs,
            wanted=tuple(map(here, draft.wanted)),
            before=beforehand,
            early=tuple(map(here, draft.early)),
            bound={**draft.bound, **given.arrays},
            own=frozenset(given.arrays),
            work={} if given.arrays or not self.before.is_fixed else draft.work,
        )
        return made, instance


@dataclass(frozen=True, slots=True, eq=False)
class GivenElements:
    """What a draft has of elements that follow from its sizes: bound symbols and outputs."""

    arrays: Mapping[TensorKey, Array]
    outputs: tuple[OnnxValue, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WishedLayouts:
    """The layouts that execs wished for as blocks were assigned, by the specs of their operands without sizes."""

    _wished: dict[tuple[ExecKey, Specs], Mapping[int, Blocked]] = field(default_factory=dict)

    def by(self, claims: KnownClaims, instance: GraphInstance) -> KnownWishes:
        """The wishes of an instance, which are noted here."""

        def preferences(key: ExecKey) -> tuple[LayoutPreference, ...] | None:
            known = claims.preferences(instance, key)
            if known is not None:
                self._wished[key, instance.others(key)] = wished_layouts(known)
            return known

        return preferences

    def asked(self) -> Wishes:
        """All of them."""
        return tuple((*question, layouts) for question, layouts in self._wished.items())


@dataclass(frozen=True, slots=True, eq=False)
class LaidTemplate:
    """A draft with parts and blocks, for all numbers at which execs wish for what they wished, and guards are met.

    Its own trace begins with the numbers of the draft's.
    """

    preferences: Wishes
    formulas: Formulas
    graphs: GraphsTemplate
    claims: KnownClaims

    def at(self, numbers: Sequence[Known], given: GivenElements, known: KnownClaims) -> GraphDraft | None:
        """The draft for these numbers; None where blocks or parts are others."""
        for key, others, preferences in self.preferences:
            kept = known.stored_preferences(key, others, numbers)
            if kept is None or wished_layouts(kept) != preferences:
                return None
        try:
            own = self.formulas.at(numbers)
        except ArithmeticError:
            return None
        if own is None:
            return None
        draft, instance = self.graphs.at(own, given)
        return replace(draft, sized=SizedClaims(self.claims, instance))


@dataclass(frozen=True, slots=True, eq=False)
class DraftTemplate:
    """A draft for all sizes that meet the guards of its `shapes`; `lay` decides on parts and blocks."""

    shapes: OpenShapes
    graphs: GraphsTemplate
    computed: Mapping[TensorKey, Elements]
    decisions: tuple[tuple[Elements, bool], ...]
    backend: str
    lay: Lay
    claims: KnownClaims
    _laid: list[LaidTemplate] = field(default_factory=list)
    _seen: list[Wishes] = field(default_factory=list)

    def at(self, shapes: Shapes) -> GraphDraft | None:
        """The draft for these shapes, laid; None where the file takes another way for them."""
        numbers = self.shapes.numbers(shapes)
        if numbers is None:
            return None
        renewal = GraphRenewal(numbers)
        if any(bool(renewal.of(elements).array()) != outcome for elements, outcome in self.decisions):
            return None
        arrays = {key: renewal.of(elements).array() for key, elements in self.computed.items()}
        given = GivenElements(arrays, tuple(_renewed(value, renewal) for value in self.graphs.draft.outputs))
        for place, template in enumerate(self._laid):
            if (known := template.at(numbers, given, self.claims)) is not None:
                self._laid.insert(0, self._laid.pop(place))
                return known
        wished = WishedLayouts()
        draft, instance = self.graphs.at(numbers, given)
        laid = self.lay(replace(draft, sized=SizedClaims(self.claims, instance)), wished.by(self.claims, instance))
        # To trace it takes longer than to lay it a few times, so it is done for what has come twice.
        asked = wished.asked()
        if asked in self._seen and len(self._laid) < MOST_LAID and (made := self._traced(numbers, given)) is not None:
            self._laid.insert(0, made)
        self._seen.append(asked)
        del self._seen[:-MOST_LAID]
        return laid

    def _traced(self, numbers: Sequence[Known], given: GivenElements) -> LaidTemplate | None:
        """What is laid for numbers like these, with sizes that remember where they come from."""
        trace, graphs, wished = SizeTrace(), self.graphs, WishedLayouts()
        opened = [trace.read(cast(int, number)) for number in numbers]
        try:
            draft, instance = graphs.at(opened, given)
            with deciding_sizes():
                laid = self.lay(draft, wished.by(self.claims, replace(instance, numbers=numbers)))
        except NncError:  # what is wrong is told where sizes are plain
            return None
        finally:
            formulas = trace.close()
        # Numbers of the draft have the same places in this trace: execs that are its own have its claims.
        claims = self.claims if all(map(instance.matches_template, laid.graph.execs)) else KnownClaims(self.backend)
        return LaidTemplate(wished.asked(), formulas, GraphsTemplate.of(laid), claims)


def _renewed(value: OnnxValue, renewal: GraphRenewal) -> OnnxValue:
    """An output whose elements may be sizes; a symbol has the same key in all graphs."""
    if value.items is not None:
        return replace(value, items=tuple(_renewed(item, renewal) for item in value.items))
    if value.array is None or not has_sizes(value.array):
        return value
    elements = [renewal.of(element) for element in value.array.reshape(-1).tolist()]
    return replace(value, array=np.array(elements, kind_of(value.array)).reshape(value.array.shape))


def template_of(opening: Opening, draft: GraphDraft, backend: str, lay: Lay) -> DraftTemplate:
    """Of what was drafted at the shapes of an opening, which is closed, for this backend."""
    shapes, importer = opening.close(), draft.importer
    assert importer is not None
    computed = {symbol.key: elements for symbol, elements in importer.computed.items()}
    graphs, decisions = GraphsTemplate.of(replace(draft, importer=None)), tuple(importer.decisions)
    return DraftTemplate(shapes, graphs, computed, decisions, backend, lay, KnownClaims(backend))
