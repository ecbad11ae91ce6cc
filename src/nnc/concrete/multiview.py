"""Places: what a node of a concrete graph reads or writes, where that need not be one tensor for ever.

    Multiview   one of several tensors, by the turn of a loop:   K0N  a b c a b c …     K1N  a b c b c …
    Phi         what went past a case..of, or what its branch wrote
    Carry       the tensor that a loop's last iteration handed to this one: a pointer moves, no bytes do
    Reference   follows one of these, or a part of it
    Taped       a tensor with its own memory for each iteration when a tape runs along
    Recalled    what a Taped place was in the iteration of the same index

A place is made concrete just before the node that touches it runs. Outside of its loop a multiview is the tensor
that it was at its last use.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias
from weakref import WeakKeyDictionary

from nnc.arguments import checked
from nnc.concrete.counter import Counter
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import ArityError, ShapeError, UsageError


class MultiviewKind(IntEnum):
    """How many views come before those that repeat."""

    K0N = 0
    K1N = 1


class _MovingView:
    """A place whose tensor changes during a run: `current` is the one of its last use; references follow it."""

    __slots__ = ("current", "followers", "name", "spec")
    spec: TensorSpec

    def __init__(self, spec: TensorSpec, name: str) -> None:
        self.spec = spec
        self.name = name
        self.current: Tensor | None = None
        self.followers: list[Reference] = []

    def touch(self, tensor: Tensor) -> Tensor:
        """Make `tensor` the current one and tell the references."""
        if tensor is not self.current:
            self.current = tensor
            for reference in self.followers:
                reference.follow(tensor)
        return tensor


@checked
class Multiview(_MovingView):
    """`views[turn % n]` for K0N with n views; for K1N `views[0]` first, then the others in turn."""

    __slots__ = ("counter", "kind", "views")

    def __init__(self, views: Sequence[Place], kind: MultiviewKind, counter: Counter, name: str = "") -> None:
        if len(views) <= kind:
            raise ArityError("multiview", got=f"{len(views)} views", need=f"at least {kind + 1} for {kind.name}")
        super().__init__(_one_spec("multiview", views), name)
        self.views = tuple(views)
        self.kind = kind
        self.counter = counter

    @property
    def repeat(self) -> int:
        """How many views repeat."""
        return len(self.views) - self.kind

    def select(self, turn: int) -> Place:
        """The view of an iteration."""
        return self.views[turn if turn < self.kind else self.kind + (turn - self.kind) % self.repeat]


@checked
class Phi(_MovingView):
    """`passed` when the case..of took no branch, else what its branch wrote; set by the case..of that lists it.

    One place in `taken` is that of every branch; several are those of branches 0, 1, ….
    """

    __slots__ = ("passed", "taken")

    def __init__(self, passed: Place, *taken: Place, name: str = "") -> None:
        if not taken:
            raise ArityError("phi", got="one place", need="what passes and what the branches write")
        super().__init__(_one_spec("phi", (passed, *taken)), name)
        self.passed = passed
        self.taken = taken

    def select(self, branch: int | None) -> Place:
        """The place after a branch has run; None for no branch."""
        if branch is None:
            return self.passed
        if len(self.taken) > 1 and branch >= len(self.taken):
            raise UsageError("phi", got=f"branch {branch}", need=f"places for {len(self.taken)} branches to hold it")
        return self.taken[branch if len(self.taken) > 1 else 0]


@checked
class Carry(_MovingView):
    """`initial` in the first iteration of a loop, then what the carry-over's source was in the iteration before."""

    __slots__ = ("initial",)

    def __init__(self, initial: Place, name: str = "") -> None:
        super().__init__(initial.spec, name)
        self.initial = initial


@checked
class Reference:
    """A tensor that moves along with a multiview: all of it, or a strided part (`offset`, `strides` in elements).

    Programs are kept by the tensors that they run on, so the view into a tensor that comes again is the same one.
    """

    __slots__ = ("_views", "current", "name", "offset", "source", "spec", "strides")

    def __init__(self, spec: TensorSpec, offset: int = 0, strides: Shape | None = None, name: str = "") -> None:
        self.spec = spec
        self.offset = offset
        self.strides = strides
        self.name = name
        self.source: Place | None = None
        self.current: Tensor | None = None
        self._views: WeakKeyDictionary[Tensor, Tensor] = WeakKeyDictionary()

    @property
    def tensor(self) -> Tensor:
        """The tensor as of the source's last use. UsageError before there was any."""
        if self.current is None:
            raise UsageError("reference", got="a read before its source was used", need="a run of the source's graph")
        return self.current

    def follow(self, tensor: Tensor) -> None:
        """Point into `tensor`, the source's current one."""
        whole = self.strides is None and self.offset == 0 and self.spec == tensor.spec
        if not whole and tensor not in self._views:
            self._views[tensor] = tensor.view(self.spec, self.offset, self._strides_over(tensor))
        self.current = tensor if whole else self._views[tensor]

    def _strides_over(self, tensor: Tensor) -> Shape:
        if self.strides is not None:
            return self.strides
        if self.spec.rank != tensor.spec.rank:
            raise ShapeError("reference", got=f"{self.spec} over {tensor.spec}", need="strides", fix="give strides=")
        return tensor.strides


@checked
class Taped:
    """Each write goes to memory that the tape keeps for the iteration; without a tape it is `inner` alone.

    A read finds what this iteration wrote, or else what an enclosing one wrote, or else `inner`. The tape notes what
    was read, for `Recalled`.
    """

    __slots__ = ("inner", "name", "spec")
    spec: TensorSpec

    def __init__(self, inner: Place, name: str = "") -> None:
        self.inner = inner
        self.spec = inner.spec
        self.name = name


@checked
class Recalled:
    """What `taped` was, read or written, in the iteration with the reader's index."""

    __slots__ = ("name", "spec", "taped")
    spec: TensorSpec

    def __init__(self, taped: Taped, name: str = "") -> None:
        self.taped = taped
        self.spec = taped.spec
        self.name = name


Place: TypeAlias = Tensor | Multiview | Phi | Carry | Reference | Taped | Recalled


@checked
def synchronize_to_multiview(source: Multiview | Phi | Carry, reference: Reference) -> Reference:
    """Let `reference` follow the current tensor of `source` from now on."""
    if reference.source is not None:
        raise UsageError("reference", got="a second source", need="a reference that follows nothing yet")
    reference.source = source
    source.followers.append(reference)
    if source.current is not None:
        reference.follow(source.current)
    return reference


def _one_spec(subject: str, places: Sequence[Place]) -> TensorSpec:
    specs = [place.spec for place in places]
    if any(spec != specs[0] for spec in specs):
        raise ShapeError(subject, got=", ".join(map(str, specs)), need="views of one spec")
    return specs[0]
