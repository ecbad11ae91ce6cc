"""Scopes: where layers get their tensors, random numbers and names from, whatever world they are built in."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import field, replace
from types import MethodType
from typing import Generic, TypeVar

from nnc.classes import dataclass
from nnc.core.values.dtype import DType
from nnc.core.values.spec import Shape, TensorSpec
from nnc.nn.state.generators import Initializer
from nnc.ops import cast, multiply
from nnc.ops.operand import Operand
from nnc.parallel import RankGroup, allreduce
from nnc.parallel.block_operators import BlockPlace, SplitRequest
from nnc.symbolic.scopes import opened_scopes, reopened

T = TypeVar("T", bound=Operand)


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """A tensor of a model without its value: where it is, what it is, how it starts.

    Trainable ones follow their gradients; the others are frozen parameters, and statistics, which layers renew. `owner`
    is the class of the layer that asked.
    """

    path: str
    spec: TensorSpec
    initializer: Initializer
    trainable: bool = True
    owner: str = ""
    statistic: bool = False
    # How its layer wants it split among ranks, and how it is.
    request: SplitRequest = ""
    place: BlockPlace | None = None
    # Which stage of a pipeline has it.
    stage: int = 0

    @property
    def own(self) -> TensorSpec:
        """What of it this process computes with: its block, where it is split among ranks."""
        return self.spec if self.place is None else self.place.block(self.spec)


@dataclass(frozen=True, slots=True)
class Untrained(Generic[T]):
    """The tensors that `resolve` gives, as those of a frozen layer."""

    resolve: Callable[[ParameterSpec], T]

    def __call__(self, parameter: ParameterSpec) -> T:
        """The tensor, which is not trained."""
        return self.resolve(replace(parameter, trainable=False))


def _keep(path: str, value: Operand) -> None:
    """Outside training, statistics stay as they are."""


def _as_it_is(scope: Scope[T], x: T, y: T) -> T:
    """Nothing is added to products."""
    return y


def _unchanged(scope: Scope[T], layer: object) -> Scope[T]:
    """Layers have no tensors of their own here."""
    return scope


@dataclass(frozen=True, slots=True)
class Randomness(Generic[T]):
    """Where layers draw from in training: `counter` is an i64 scalar, another one at each step of training."""

    counter: Callable[[], T]
    seed: int
    asked: Counter[str] = field(default_factory=Counter)

    def stream(self, path: str) -> tuple[T, int]:
        """A counter and a seed that no other layer has, nor the same layer applied once more."""
        self.asked[path] += 1
        digest = hashlib.sha256(f"{self.seed}:{path}:{self.asked[path]}".encode()).digest()
        return self.counter(), int.from_bytes(digest[:8], "little")


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """The factor of scores, how many steps back one sees (0: all), and the bound of scores (0: none).

    Beside its window a step sees the first `sinks` ones.
    """

    scale: float
    window: int = 0
    cap: float = 0.0
    sinks: int = 0


@dataclass(frozen=True, slots=True)
class StepCache(Generic[T]):
    """What generation gives to layers: `positions`[batch, steps] of the new steps, and what is kept of earlier ones.

    `extend(path, value)` puts a value[batch, steps, …] of the new steps among those of earlier ones and gives all of
    them, [batch, capacity, …]; places behind the newest step hold anything. `wanted` gives the steps, of values
    [batch, steps, features], whose outputs will be read. `attend(path, q, k, v, form)` keeps k and v of the new steps,
    and gives what attention over all that is kept gives for q.
    """

    positions: T
    extend: Callable[[str, T], T]
    wanted: Callable[[T], T]
    attend: Callable[[str, T, T, T, AttentionForm], T]


@dataclass(frozen=True, slots=True)
class Ranks(Generic[T]):
    """The processes that share a batch; `part()` says how much of it is here: parts sum to 1."""

    group: RankGroup
    part: Callable[[], T]

    def mean(self, own: T) -> T:
        """The mean over the whole batch, of which `own` is that over our part."""
        part = cast(self.part(), own.spec.dtype)
        return allreduce(multiply(own, part), "sum", self.group)


@dataclass(frozen=True, slots=True)
class Scope(Generic[T]):
    """Where a layer stands in the model: a path, the source of its tensors, and whether this is a training step.

    `adapt` gives what becomes of a dense layer's product y of x, and `differentiated` says that a gradient will follow.
    """

    resolve: Callable[[ParameterSpec], T]
    path: str = ""
    training: bool = False
    renew: Callable[[str, T], None] = _keep
    outside: str = field(default_factory=opened_scopes)
    randomness: Randomness[T] | None = None
    owner: str = ""
    adapt: Callable[[Scope[T], T, T], T] = _as_it_is
    differentiated: bool = False
    cache: StepCache[T] | None = None
    # Who else has a part of the batch: statistics of a batch are those of all parts.
    ranks: Ranks[T] | None = None
    # The scope as a layer that is built in it sees it.
    entered: Callable[[Scope[T], object], Scope[T]] = _unchanged
    # How the layers around want products to be split among ranks.
    request: SplitRequest = ""

    @property
    def gives_own(self) -> bool:
        """Whether layers get what the call of a layer has for them, which nothing around it freezes or adapts."""
        return isinstance(self.resolve, MethodType) and self.adapt is _as_it_is

    def parameter(self, name: str, shape: Shape, like: Operand, initializer: Initializer) -> T:
        """The parameter `name` of this layer, of `like`'s element type and device."""
        spec = TensorSpec(shape, like.spec.dtype, like.spec.layout, like.spec.device)
        return self.parameter_of(name, spec, initializer)

    def parameter_of(self, name: str, spec: TensorSpec, initializer: Initializer) -> T:
        """The parameter `name` of this layer, when its element type follows no operand's."""
        row = ParameterSpec(self._join(name), spec, initializer, owner=self.owner, request=self.request)
        return self._resolved(row)

    def statistic(self, name: str, shape: Shape, dtype: DType, initializer: Initializer) -> T:
        """The running statistic `name` of this layer: kept with the parameters, but not trained."""
        spec = TensorSpec(shape, dtype)
        row = ParameterSpec(self._join(name), spec, initializer, trainable=False, owner=self.owner, statistic=True)
        return self._resolved(row)

    def renew_statistic(self, name: str, value: T) -> None:
        """`value` takes the place of the statistic once the training step is done."""
        self.renew(self._join(name), value)

    def stream(self) -> tuple[T, int] | None:
        """Counter and seed for a random operator of this layer; None outside of training, where nothing is drawn."""
        if self.randomness is None:
            return None
        with reopened(self.outside):
            return self.randomness.stream(self.path)

    def kept(self, name: str, value: T) -> T:
        """In generation, `value` behind what earlier steps kept by this name; itself otherwise."""
        if self.cache is None:
            return value
        with reopened(self.outside):
            return self.cache.extend(self._join(name), value)

    def attended(self, q: T, k: T, v: T, form: AttentionForm) -> T | None:
        """In generation, causal attention of the new steps over all that is kept, k and v among it; else None."""
        if self.cache is None:
            return None
        with reopened(self.outside):
            return self.cache.attend(self.path, q, k, v, form)

    def wanted(self, x: T) -> T:
        """In generation, the steps of `x`[batch, steps, features] whose outputs will be read; else all of them."""
        return x if self.cache is None else self.cache.wanted(x)

    def inside(self, name: str) -> Scope[T]:
        """The scope of a part of this layer."""
        return self._changed(self._join(name), self.owner)

    def owned(self, owner: str) -> Scope[T]:
        """The same scope as a layer of this class has it."""
        return self if owner == self.owner else self._changed(self.path, owner)

    def _changed(self, path: str, owner: str) -> Scope[T]:
        # Twice per layer of an eager call: `replace` takes 6 µs, and five small layers then 213 µs, not 165.
        return Scope(
            self.resolve, path, self.training, self.renew, self.outside, self.randomness, owner, self.adapt,
            self.differentiated, self.cache, self.ranks, self.entered, self.request,
        )  # fmt: skip

    def _resolved(self, parameter: ParameterSpec) -> T:
        """Its path names a parameter, whatever layer asks for it."""
        with reopened(self.outside):
            return self.resolve(parameter)

    def _join(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name
