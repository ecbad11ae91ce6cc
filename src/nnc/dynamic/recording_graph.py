"""What a dynamic graph knows before it computes anything: its variables, and the record that leads to them.

A variable is recorded by its place: a node, one of several outputs of a node, or a view. What no variable that is still
held depends on is forgotten (`nnc.dynamic.record`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from weakref import getweakrefs, ref

from numpy.typing import ArrayLike

from nnc.arguments import explained_as, frequent
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.values.device import Device
from nnc.core.values.dtype import DType
from nnc.core.values.pool import Pool
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.dynamic.record import (
    NUMBERS,
    Place,
    RecordedNode,
    RecordedOutput,
    RecordedView,
    RecordGraph,
    Source,
    leading_to,
    node_of,
    root_of,
)  # fmt: skip
from nnc.dynamic.refusals import check_variables
from nnc.dynamic.values import tensor_of
from nnc.dynamic.variable import Recorder, Variable
from nnc.errors import SymbolError, UsageError
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import TensorKey

# Graphs by number that do not record in this context.
UNRECORDED: ContextVar[frozenset[int]] = ContextVar("unrecorded", default=frozenset())
# Graphs by number of which nothing that is recorded may be read.
APART: ContextVar[frozenset[int]] = ContextVar("apart", default=frozenset())
_NUMBERS = count()


@explained_as("DynamicGraph")
class RecordingGraph(Uncopied, Recorder):
    """Makes variables and keeps the record of those that gradients may be asked for; whoever computes is above."""

    def __init__(self) -> None:
        self._number = next(_NUMBERS)
        # Numbers of nodes and views, and the variables that are recorded: what they lead to is the record.
        self._numbers = NUMBERS
        self._held: set[ref[Variable]] = set()
        self._let_go = self._held.discard
        self._record = RecordGraph()
        self._pool = Pool()

    # ---- the record

    @property
    def record(self) -> SymbolicGraph:
        """What is recorded now, as a symbolic graph, which is brought up to date at each look."""
        self._record.look(self._places)
        return self._record.graph

    def key_of(self, variable: Variable) -> TensorKey | None:
        """The symbol of a variable in the record, None for a constant."""
        check_variables("key_of", [variable])
        place = variable.place
        if place is None:
            return None
        if variable.graph is not self:
            got, need = f"{variable.spec} of another graph", "a variable of this one"
            raise SymbolError("key_of", got=got, need=need, fix="ask the graph that recorded it")
        self._record.look(self._places)
        return self._record.key(place)

    def _places(self) -> list[Place]:
        """The places that variables hold."""
        held = [entry() for entry in self._held.copy()]
        return [entry.place for entry in held if entry is not None and entry.place is not None]

    @frequent
    def hold(self, variable: Variable) -> None:
        """Keep what leads to a recorded variable in the record, as long as it lives."""
        if all(getweakref.__callback__ is not self._let_go for getweakref in getweakrefs(variable)):
            self._held.add(ref(variable, self._let_go))

    def _recorded(self, tensor: Tensor, place: Place, root: Tensor | None = None) -> Variable:
        """A recorded variable over `tensor`, a part of `root`."""
        made = Variable(self, tensor, place, root)
        self._held.add(ref(made, self._let_go))
        return made

    def _leaf(self, tensor: Tensor) -> Variable:
        """A variable over this very tensor."""
        if not self.recording:
            return Variable(self, tensor, None)
        compact = _contiguous(tensor)
        return self._recorded(compact, self._leaf_node(compact, caller_origin()))

    def _leaf_node(self, tensor: Tensor, origin: str) -> RecordedNode:
        number = next(self._numbers)
        return RecordedNode(None, (), (tensor,), number, number, origin)

    def _node(
        self,
        source: Source,
        tensors: Sequence[Tensor | None],
        places: Sequence[Place | None],
        outputs: tuple[Tensor, ...],
        oldest: int,
        origin: str,
    ) -> RecordedNode:
        """What ran on these tensors, recorded; one without a place gets a leaf for as long as the node reads it."""
        read: list[Place | None] = []
        watched: list[Storage] | None = None
        for tensor, place in zip(tensors, places, strict=True):
            if tensor is None:
                read.append(None)
                continue
            storage = tensor.storage
            if storage.watch is not None:
                watched = [storage, *(watched or ())]
            if place is None:
                kept = tensor if tensor.is_contiguous else tensor.clone()
                number = next(self._numbers)
                place = RecordedNode(None, (), (kept,), number, number, origin)
            read.append(place)
        number = next(self._numbers)
        for storage in watched or ():
            assert storage.watch is not None
            storage.watch.read(storage.bytes, number)
        return RecordedNode(source, tuple(read), outputs, number, oldest, origin)

    # ---- variables

    def variable(
        self,
        value: ArrayLike | Tensor,
        dtype: DType | str | None = None,
        *,
        share: bool = False,
        device: Device | None = None,
    ) -> Variable:
        """A leaf that gradients can be asked for; a copy of `value`, or with `share` its own memory.

        Shared memory is not to be written as long as anything that was computed from it waits for its gradient. A
        tensor stays on its device, anything else goes to that of the context (`nnc.device`), unless one is named.
        """
        return self._leaf(tensor_of(value, dtype, self._pool, share=share, device=device))

    def constant(
        self,
        value: ArrayLike | Tensor,
        dtype: DType | str | None = None,
        *,
        share: bool = False,
        device: Device | None = None,
    ) -> Variable:
        """A value that is not recorded: no gradient flows to it. Memory and device as in `variable`."""
        return Variable(self, tensor_of(value, dtype, self._pool, share=share, device=device), None)

    def detach(self, variable: Variable) -> Variable:
        """The same memory as a constant."""
        return Variable(self, variable.tensor, None, variable.root)

    def copied(self, variable: Variable) -> Variable:
        """A leaf or a constant like this one, in memory of its own; SymbolError for what was computed."""
        place = variable.place
        if place is None:
            return Variable(self, variable.tensor.clone(), None)
        if type(place) is not RecordedNode or place.source is not None:
            got, need = "a variable that was computed", "a leaf or a constant: a copy would lose its gradient"
            raise SymbolError("copy", got=got, need=need, fix="detach() it", origin=caller_origin())
        tensor = variable.tensor.clone()
        return self._recorded(tensor, self._leaf_node(tensor, caller_origin()))

    def twin(self, variable: Variable) -> Variable:
        """Another handle of the same value."""
        if variable.place is None:
            return self.detach(variable)
        if type(variable.place) is RecordedView:
            return self._recorded(variable.tensor, variable.place, variable.root)
        # Another object over the same memory tells this handle from the one that `variable` gave.
        tensor = variable.tensor.view(variable.spec, 0, variable.tensor.strides)
        return self._recorded(tensor, variable.place, variable.tensor)

    def is_leaf(self, variable: Variable) -> bool:
        """True for a recorded variable that nothing computed, and for a view of one; not for its twins."""
        place = variable.place
        if place is None or node_of(place).source is not None:
            return False
        return type(place) is RecordedView or variable.tensor is variable.root

    @property
    def recording(self) -> bool:
        """False inside `no_grad`."""
        return self._number not in UNRECORDED.get()

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        """Run without recording, in this thread (or asynchronous task) alone."""
        token = UNRECORDED.set(UNRECORDED.get() | {self._number})
        try:
            yield
        finally:
            UNRECORDED.reset(token)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """As `no_grad`, and SymbolError for commands that read what was recorded before: what runs here runs again."""
        token = APART.set(APART.get() | {self._number})
        try:
            with self.no_grad():
                yield
        finally:
            APART.reset(token)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Run with recording in this thread, whatever is so outside."""
        token = UNRECORDED.set(UNRECORDED.get() - {self._number})
        try:
            yield
        finally:
            UNRECORDED.reset(token)

    # ---- changes of variables

    def at_place(self, tensor: Tensor, place: Place, root: Tensor) -> Variable:
        """A variable over what was recorded there."""
        return self._recorded(tensor, place, root)

    def settle(self, pairs: Iterable[tuple[Variable, Tensor]]) -> None:
        """Let leaves and constants hold other tensors: the same objects, of which what was computed knows nothing."""
        origin = caller_origin()
        for variable, given in pairs:
            tensor = given if given.is_contiguous else given.clone()
            variable.tensor = variable.root = tensor
            if variable.place is not None:
                # What is recorded is held already.
                variable.place = self._leaf_node(tensor, origin)

    def train(self, variable: Variable, wanted: bool) -> None:
        """Let a constant be a leaf, or a leaf a constant: the same object, whose gradient so far is forgotten."""
        if not wanted and not self.is_leaf(variable):
            got, fix = "a variable that was computed", "x.detach()"
            raise UsageError("requires_grad", got=got, need="a leaf or a constant", fix=fix, origin=caller_origin())
        if wanted and not variable.dtype.is_continuous:
            got, fix = str(variable.spec), "x.astype(nnc.f32) before"
            raise UsageError("requires_grad", got=got, need="floating-point elements", fix=fix, origin=caller_origin())
        variable.grad = None
        variable.place = None
        if wanted:
            variable.tensor = variable.root = _contiguous(variable.tensor)
            variable.place = self._leaf_node(variable.tensor, caller_origin())
            self.hold(variable)

    # ---- looks at the record

    def mark(self) -> int:
        """What is recorded from now on has a greater number."""
        return next(self._numbers)

    def depends_on_older(self, variable: Variable, mark: int) -> bool:
        """True when something that was recorded before the mark leads to the variable."""
        return variable.place is not None and variable.place.oldest < mark

    def alive(self) -> list[tuple[TensorSpec, str, bool, int]]:
        """Spec, line, whether a variable holds it, and address of each recorded root that has memory."""
        places = self._places()
        held = {(node_of(entry), _index_of(entry)) for entry in places}
        return [
            (output.spec, node.origin, (node, index) in held, output.address)
            for node in leading_to(places)
            if isinstance(node, RecordedNode)
            for index, output in enumerate(node.outputs)
            if isinstance(output, Tensor)
        ]


def _index_of(place: Place) -> int:
    """Which output of its node a place is in."""
    root = root_of(place)
    return root.index if isinstance(root, RecordedOutput) else 0


def _contiguous(tensor: Tensor) -> Tensor:
    """`tensor`, or a copy in row-major order: aliases of recorded tensors count on that order."""
    return tensor if tensor.is_contiguous else tensor.clone()
