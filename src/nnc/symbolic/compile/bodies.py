"""Bodies of loops and branches: planned before the graph around them, lowered to concrete loops and branches.

memory of a loop = arena of its body + two or more blocks per carried value
memory of a case..of = that of its largest branch

This memory is a block of the graph around, alive at the loop's step. Carried values move as pointers: an iteration
reads one block and writes another. After the loop one copy takes each to its place in the graph around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nnc.concrete import (
    Carry,
    ConcreteGraph,
    CountBelow,
    Multiview,
    NonZero,
    Phi,
    Place,
    PythonTest,
    Reference,
    synchronize_to_multiview,
)
from nnc.concrete import ExecKey as ConcreteKey
from nnc.concrete.graph import workspace_spec
from nnc.core.command import AnyCommand, Command
from nnc.core.dispatch import DISPATCHER
from nnc.core.settings import SETTINGS
from nnc.core.spec import contiguous_strides
from nnc.core.storage import ALIGNMENT, Storage
from nnc.core.tensor import Tensor
from nnc.errors import IndexRangeError, LayoutError, UsageError
from nnc.ops.copy import COPY
from nnc.ops.fill import FILL, FillAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic.compile.liveness import Life, Lives, find_lives, fold_inplace
from nnc.symbolic.compile.memory import Layout, lay_out
from nnc.symbolic.compile.order import choose_order, needs_of
from nnc.symbolic.control import CaseAttrs, Holds, PythonHolds, WhileAttrs
from nnc.symbolic.ir import Body, ExecKey, ExecSymbol, SymbolicGraph, TensorKey, bodies_of

_COPY = Command(COPY, NoAttrs())


@dataclass(frozen=True, slots=True, eq=False)
class Scheme:
    """A graph with everything fixed before memory exists; `inner` are the schemes of the bodies of its execs.

    The first `tested` execs are those that a loop's test needs.
    """

    graph: SymbolicGraph
    order: tuple[ExecKey, ...]
    lives: Lives
    layout: Layout
    inner: Mapping[ExecKey, tuple[Scheme, ...]]
    backend: str
    tested: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the arena, rounded up to the alignment of blocks."""
        return _aligned(self.layout.plan.arena_bytes)


def plan_bodies(graph: SymbolicGraph, execs: Sequence[ExecKey], backend: str) -> dict[ExecKey, tuple[Scheme, ...]]:
    """The schemes of all bodies inside these execs."""
    found = {}
    for key in execs:
        command = graph.execs[key].command
        bodies = [body for _, body in bodies_of(command)]
        if bodies:
            found[key] = tuple(_plan_body(body, command, backend) for body in bodies)
    return found


def scratch_bytes(
    graph: SymbolicGraph, execs: Sequence[ExecKey], inner: Mapping[ExecKey, tuple[Scheme, ...]], backend: str
) -> dict[ExecKey, int]:
    """The scratch memory of each exec: its kernel's, or what is inside of it."""
    return {
        key: _memory_inside(graph, key, inner[key]) if key in inner else _claimed_bytes(graph, key, backend)
        for key in execs
    }


def plan_workspaces(order: Sequence[ExecKey], scratch: Mapping[ExecKey, int], lives: Lives) -> int:
    """Add scratch memory as blocks of one step; returns the largest."""
    for step, key in enumerate(order):
        if scratch[key]:
            lives.workspaces[step] = Life([], step, step + 1, scratch[key])
    return max(scratch.values(), default=0)


def _plan_body(body: Body, command: AnyCommand, backend: str) -> Scheme:
    """Parameters, results and the loop count live outside of the body's arena."""
    graph, attrs = body.graph, command.attrs
    outside, kept = [*body.parameters, *body.results], list(body.results)
    asked: tuple[TensorKey, ...] = ()
    if isinstance(attrs, WhileAttrs):
        asked = attrs.asked()
        outside.append(attrs.count)
        kept.extend(graph.root(key) for key in (*attrs.stacked, *asked))
    given = frozenset([*body.parameters, *outside[len(body.parameters) + len(body.results) :]])
    execs = graph.needed_for(kept, given)
    inner = plan_bodies(graph, execs, backend)
    scratch = scratch_bytes(graph, execs, inner, backend)
    needs = needs_of(graph, execs, outside, kept, scratch)
    first = set(graph.needed_for(asked, given))
    order = tuple(sorted(choose_order(graph, execs, needs, {}), key=lambda key: key not in first))
    lives = find_lives(graph, order, needs, frozenset(outside))
    fold_inplace(graph, order, lives)
    plan_workspaces(order, scratch, lives)
    layout = lay_out(lives, {root: graph.label(root) for root in lives.of})
    return Scheme(graph, order, lives, layout, inner, backend, len(first))


def _memory_inside(graph: SymbolicGraph, key: ExecKey, schemes: Sequence[Scheme]) -> int:
    attrs = graph.execs[key].command.attrs
    if isinstance(attrs, WhileAttrs):
        return schemes[0].nbytes + sum(count * nbytes for count, nbytes in _rooms(attrs.body, attrs.carried).values())
    return max(scheme.nbytes for scheme in schemes)


def _rooms(body: Body, carried: int) -> dict[int, tuple[int, int]]:
    """For each carried value that an iteration computes: how many blocks by turns it needs, and of how many bytes.

    A value that goes on from one carried symbol to the next, an iteration each, lives so many iterations longer.
    """
    found = {}
    for place in range(carried):
        if body.results[place] in body.parameters:
            continue
        holders, count = {body.parameters[place]}, 1
        while holders:
            holders = {body.parameters[other] for other in range(carried) if body.results[other] in holders}
            count += 1
        found[place] = (count, _aligned(body.graph.tensors[body.results[place]].spec.nbytes))
    return found


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _claimed_bytes(graph: SymbolicGraph, key: ExecKey, backend: str) -> int:
    record = graph.execs[key]
    inputs = tuple(None if tensor is None else graph.tensors[tensor].spec for tensor in record.inputs)
    outputs = tuple(graph.tensors[tensor].spec for tensor in record.outputs)
    try:
        return DISPATCHER.claim(record.command, inputs, outputs, backend).kernel.workspace_bytes
    except UsageError as error:
        error.origin = error.origin or record.origin
        raise


@dataclass(slots=True, eq=False)
class Builder:
    """Makes a concrete graph of a scheme whose arena begins at `base` of `storage`.

    `places` are the roots that live elsewhere; `build` adds the others.
    """

    scheme: Scheme
    storage: Storage
    base: int
    places: dict[TensorKey, Place]
    concrete: ConcreteGraph
    _offsets: dict[int, int] = field(default_factory=dict)
    _keys: list[ConcreteKey] = field(default_factory=list)
    _tested: list[ConcreteKey] = field(default_factory=list)

    def build(self) -> Builder:
        """Append all execs, one after the other."""
        scheme, layout = self.scheme, self.scheme.layout
        blocks = zip(layout.blocks, layout.plan.offsets, strict=True)
        self._offsets = {id(life): self.base + offset for life, offset in blocks}
        for root, life in scheme.lives.of.items():
            self.places[root] = Tensor(scheme.graph.tensors[root].spec, self.storage, self._offsets.get(id(life), 0))
        dead = self._dead_bytes() if SETTINGS.debug else {}
        for step, key in enumerate(scheme.order):
            self._add_exec(step, scheme.graph.execs[key], scheme.inner.get(key, ()))
            if step == scheme.tested - 1:
                self._tested = self._keys[-1:]
            for tensor in dead.get(step, ()):
                self._append(self.concrete.add(_poison(tensor), [], [tensor]))
        return self

    def copy(self, source: Place, target: Place) -> None:
        """Append a copy of `source`'s elements."""
        self._append(self.concrete.add(_COPY, [source], [target]))

    def place(self, key: TensorKey) -> Place:
        """Where a symbol lies; an alias of what moves moves along."""
        found = self.places.get(key)
        if found is None:
            graph = self.scheme.graph
            region, root = graph.region(key), self.places[graph.root(key)]
            if isinstance(root, Tensor):
                found = view_root(graph, key, root)
            else:
                assert isinstance(root, Multiview | Phi | Carry)
                part = Reference(graph.tensors[key].spec, region.offset, region.strides)
                found = synchronize_to_multiview(root, part)
            self.places[key] = found
        return found

    def _append(self, key: ConcreteKey) -> None:
        if self._keys:
            self.concrete.connect(self._keys[-1], key, "order")
        self._keys.append(key)

    def _dead_bytes(self) -> dict[int, list[Tensor]]:
        """The blocks that nobody needs any more, as bytes, by the step after which that is so."""
        dead: dict[int, list[Tensor]] = {}
        for life in self.scheme.layout.blocks:
            tensor = Tensor(workspace_spec(life.nbytes), self.storage, self._offsets[id(life)])
            dead.setdefault(life.upper - 1, []).append(tensor)
        return dead

    def _add_exec(self, step: int, record: ExecSymbol, schemes: tuple[Scheme, ...]) -> None:
        workspace, attrs = self.scheme.lives.workspaces.get(step), record.command.attrs
        at = 0 if workspace is None else self._offsets[id(workspace)]
        if isinstance(attrs, WhileAttrs):
            self._add_while(record, attrs, schemes[0], at)
        elif isinstance(attrs, CaseAttrs):
            self._add_case(record, attrs, schemes, at)
        else:
            scratch = None if workspace is None else Tensor(workspace_spec(workspace.nbytes), self.storage, at)
            inputs = [None if tensor is None else self.place(tensor) for tensor in record.inputs]
            outputs = [self.place(tensor) for tensor in record.outputs]
            key = self.concrete.add(record.command, inputs, outputs, workspace=scratch, name=record.name)
            self._append(key)

    # ---- loops

    def _add_while(self, record: ExecSymbol, attrs: WhileAttrs, scheme: Scheme, at: int) -> None:
        body = ConcreteGraph(backend=scheme.backend, name=record.name or "while")
        inputs = [self.place(key) for key in record.inputs if key is not None]
        carries = [Carry(place) for place in inputs[: attrs.carried]]
        places: dict[TensorKey, Place] = dict(
            zip(attrs.body.parameters, (*carries, *inputs[attrs.carried :]), strict=True)
        )
        places[attrs.count] = body.count
        places.update(self._make_rooms(attrs.body, body, attrs.carried, at + scheme.nbytes))
        builder = Builder(scheme, self.storage, at, places, body).build()
        outputs = [self.place(key) for key in record.outputs]
        builder._stack(attrs, outputs[attrs.carried + 1 :])
        results = [places[key] for key in attrs.body.results]
        for result, carry in zip(results, carries, strict=True):
            if result is not carry:
                body.carry_over(result, carry)
        test, breakpoints = builder._test(attrs), builder._breakpoints(attrs)
        self._append(self.concrete.while_loop(body, test, breakpoints=breakpoints, name=record.name))
        finals = results if attrs.at_end else carries
        for source, target in zip((*finals, body.count), outputs, strict=False):
            self.copy(source, target)

    def _make_rooms(self, body: Body, concrete: ConcreteGraph, carried: int, at: int) -> dict[TensorKey, Place]:
        """Blocks by turns for each value that an iteration computes for the next ones."""
        found: dict[TensorKey, Place] = {}
        for place, (count, nbytes) in _rooms(body, carried).items():
            key = body.results[place]
            spec = body.graph.tensors[key].spec
            views = [Tensor(spec, self.storage, at + turn * nbytes) for turn in range(count)]
            found[key] = concrete.multiview(views)
            at += count * nbytes
        return found

    def _stack(self, attrs: WhileAttrs, stacks: Sequence[Place]) -> None:
        """At the end of an iteration its values go to their rows."""
        for key, stack in zip(attrs.stacked, stacks, strict=True):
            assert isinstance(stack, Tensor)
            spec = self.scheme.graph.tensors[key].spec
            strides, count = contiguous_strides(spec.shape), stack.shape[0]
            rows = [stack.view(spec, row * spec.elements, strides) for row in range(count)]
            self.copy(self.place(key), self.concrete.multiview(rows))

    def _test(self, attrs: WhileAttrs) -> CountBelow | NonZero | PythonTest:
        match attrs.test:
            case CountBelow():
                return attrs.test
            case Holds() if attrs.at_most is None:
                return NonZero(self.place(attrs.test.symbol))
            case Holds():
                function: Callable[..., object] = _is_true
            case PythonHolds():
                function = attrs.test.function
        places = tuple(self.place(key) for key in attrs.asked())
        if attrs.at_most is None:
            return PythonTest(function, places)
        last = attrs.at_most - attrs.at_end
        return PythonTest(_bounded(function, last), (self.concrete.count, *places))

    def _breakpoints(self, attrs: WhileAttrs) -> list[ConcreteKey]:
        """Where the test is asked: behind all, or behind what it needs."""
        return self._keys[-1:] if attrs.at_end else self._tested

    # ---- branches

    def _add_case(self, record: ExecSymbol, attrs: CaseAttrs, schemes: tuple[Scheme, ...], at: int) -> None:
        inputs = [self.place(key) for key in record.inputs if key is not None]
        outputs = [self.place(key) for key in record.outputs]
        choice = _choice(attrs.function or _integer, len(attrs.branches), attrs.otherwise is not None)
        node = self.concrete.case_of(choice, inputs=inputs[: attrs.chosen], name=record.name)
        self._append(node)
        for index, ((name, body), scheme) in enumerate(zip(attrs.bodies(), schemes, strict=True)):
            branch = ConcreteGraph(backend=scheme.backend, name=name)
            places = dict(zip(body.parameters, inputs[attrs.chosen :], strict=True))
            places.update(zip(body.results, outputs, strict=True))
            Builder(scheme, self.storage, at, places, branch).build()
            self.concrete.set_case(node, index, branch)


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


def _poison(dead: Tensor) -> AnyCommand:
    """Bytes of 0xFF: not-a-number in every floating-point type, so that whoever reads freed memory is found out."""
    return Command(FILL, FillAttrs(255.0, dead.spec))


def _is_true(tensor: Tensor) -> bool:
    return bool(tensor.numpy().item())


def _integer(tensor: Tensor) -> int:
    return int(tensor.numpy().item())


def _bounded(function: Callable[..., object], last: int) -> Callable[..., bool]:
    """The test, with an error where it would let the loop go beyond its last iteration."""

    def test(count: Tensor, *tensors: Tensor) -> bool:
        goes_on = bool(function(*tensors))
        if goes_on and _integer(count) >= last:
            raise IndexRangeError("while", got="a loop that goes on", need="an end within at_most", fix="raise at_most")
        return goes_on

    return test


def _choice(function: Callable[..., int], count: int, has_bypass: bool) -> Callable[..., int]:
    """The branch to take: `count` stands for the bypass."""

    def choose(*tensors: Tensor) -> int:
        chosen = function(*tensors)
        if 0 <= chosen < count:
            return chosen
        if not has_bypass:
            raise IndexRangeError(
                "case..of", got="a choice without a branch", need=f"0 ≤ choice < {count}", fix="bypass="
            )
        return count

    return choose
