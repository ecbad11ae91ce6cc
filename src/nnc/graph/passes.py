"""Typed passes: what a pass requires is its parameters, what it provides is its return value.

    @analysis(PLAN, SHAPES)                     @transform(SHAPES, preserves=(SHAPES,))
    def plan(view: View, shapes: Shapes) -> Plan    def prune(graph: G, shapes: Shapes) -> Changed

An analysis may not change the graph. A transform may, and says how often. The manager computes missing facts on
demand, checks both promises and the graph's rules at each border, and names the guilty pass. The graph may be
anything that counts its changes.

`nnc.symbolic.passes.simplify` runs the passes of symbolic graphs so. Their one fact is `WANTED`, and a caller's own
analyses come beside it; what the compiler derives (order, lives, memory) is of a graph that no longer changes, and
needs no table. Instruments are for those who build on `nnc.graph` (seed 004, row M15 of docs/parity.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from time import perf_counter
from typing import Generic, Protocol, TypeVar, overload

from nnc.classes import dataclass
from nnc.errors import RegistryError, VerificationError
from nnc.graph.column import Fact, FactKey, Facts
from nnc.graph.view import Versioned

G = TypeVar("G", bound=Versioned)
G_contra = TypeVar("G_contra", bound=Versioned, contravariant=True)
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Changed:
    """How many edits a transform made; none means that the graph's version is as before.

    `fired` tells how often each of its rules made some.
    """

    count: int = 0
    fired: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Changed) -> Changed:
        return Changed(self.count + other.count, Counter(self.fired) + Counter(other.fired))


class Provider(Protocol[G_contra]):
    """An analysis, whatever the type of what it provides."""

    @property
    def name(self) -> str:
        """The name of the pass, for messages."""
        ...

    @property
    def key(self) -> FactKey:
        """The fact that the analysis provides."""
        ...

    @property
    def requires(self) -> tuple[FactKey, ...]:
        """The facts that it reads, in the order of its parameters."""
        ...

    def provide(self, graph: G_contra, facts: Facts) -> None:
        """Compute the fact and put it into the table."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Analysis(Generic[G_contra, T]):
    """`facts[provides] = function(view, *(facts[key] for key in requires))`; made by `@analysis`."""

    name: str
    provides: Fact[T]
    requires: tuple[FactKey, ...]
    function: Callable[..., T]

    @property
    def key(self) -> FactKey:
        """The fact that the analysis provides."""
        return self.provides

    def provide(self, graph: G_contra, facts: Facts) -> None:
        """Compute the fact and put it into the table."""
        facts[self.provides] = self.function(graph, *(key.read(facts) for key in self.requires))


@dataclass(frozen=True, slots=True, eq=False)
class Transform(Generic[G_contra]):
    """`function(graph, *(facts[key] for key in requires)) -> Changed`; made by `@transform`."""

    name: str
    requires: tuple[FactKey, ...]
    preserves: tuple[FactKey, ...]
    function: Callable[..., Changed]

    def apply(self, graph: G_contra, facts: Facts) -> Changed:
        """Run on the graph with the facts that the pass requires."""
        return self.function(graph, *(key.read(facts) for key in self.requires))


@overload
def analysis(provides: Fact[T], /) -> Callable[[Callable[[G], T]], Analysis[G, T]]: ...
@overload
def analysis(provides: Fact[T], a: Fact[A], /) -> Callable[[Callable[[G, A], T]], Analysis[G, T]]: ...
@overload
def analysis(provides: Fact[T], a: Fact[A], b: Fact[B], /) -> Callable[[Callable[[G, A, B], T]], Analysis[G, T]]: ...
@overload
def analysis(
    provides: Fact[T], a: Fact[A], b: Fact[B], c: Fact[C], /
) -> Callable[[Callable[[G, A, B, C], T]], Analysis[G, T]]: ...
@overload
def analysis(
    provides: Fact[T], a: Fact[A], b: Fact[B], c: Fact[C], d: Fact[D], /
) -> Callable[[Callable[[G, A, B, C, D], T]], Analysis[G, T]]: ...
def analysis(provides: Fact[T], /, *requires: FactKey) -> Callable[[Callable[..., T]], Analysis[G, T]]:
    """Make a function an analysis of the fact it returns; the facts it reads are its parameters, in order."""

    def decorate(function: Callable[..., T]) -> Analysis[G, T]:
        return Analysis(function.__name__, provides, requires, function)

    return decorate


Preserved = tuple[FactKey, ...]


@overload
def transform(*, preserves: Preserved = ()) -> Callable[[Callable[[G], Changed]], Transform[G]]: ...
@overload
def transform(a: Fact[A], /, *, preserves: Preserved = ()) -> Callable[[Callable[[G, A], Changed]], Transform[G]]: ...
@overload
def transform(
    a: Fact[A], b: Fact[B], /, *, preserves: Preserved = ()
) -> Callable[[Callable[[G, A, B], Changed]], Transform[G]]: ...
@overload
def transform(
    a: Fact[A], b: Fact[B], c: Fact[C], /, *, preserves: Preserved = ()
) -> Callable[[Callable[[G, A, B, C], Changed]], Transform[G]]: ...
@overload
def transform(
    a: Fact[A], b: Fact[B], c: Fact[C], d: Fact[D], /, *, preserves: Preserved = ()
) -> Callable[[Callable[[G, A, B, C, D], Changed]], Transform[G]]: ...
def transform(*requires: FactKey, preserves: Preserved = ()) -> Callable[[Callable[..., Changed]], Transform[G]]:
    """Make a function a transform; the facts it reads are its parameters, those in `preserves` stay true after it."""

    def decorate(function: Callable[..., Changed]) -> Transform[G]:
        return Transform(function.__name__, requires, preserves, function)

    return decorate


class Instrument(Protocol[G_contra]):
    """Looks on before and after each pass; may not change the graph."""

    def before(self, name: str, graph: G_contra) -> None:
        """A pass is about to run."""
        ...

    def after(self, name: str, graph: G_contra) -> None:
        """The pass has run and the graph was found in order."""
        ...


@dataclass(slots=True)
class Timing:
    """Seconds per pass, in the order in which the passes ended."""

    seconds: list[tuple[str, float]] = field(default_factory=list)
    _started: dict[str, float] = field(default_factory=dict)

    def before(self, name: str, graph: Versioned) -> None:
        """Note the time."""
        self._started[name] = perf_counter()

    def after(self, name: str, graph: Versioned) -> None:
        """Note how long the pass took."""
        self.seconds.append((name, perf_counter() - self._started.pop(name)))


@dataclass(slots=True)
class Snapshots(Generic[G]):
    """The graph's text after each pass."""

    render: Callable[[G], str]
    texts: list[tuple[str, str]] = field(default_factory=list)

    def before(self, name: str, graph: G) -> None:
        """Nothing: the text before is the text after the last pass."""

    def after(self, name: str, graph: G) -> None:
        """Keep the text."""
        self.texts.append((name, self.render(graph)))


class PassManager(Generic[G]):
    """Runs passes over one graph and keeps what is known about it.

    `verify(graph)` gives the broken rules in words; it runs before the first pass, and after each transform that
    edits the graph.
    """

    def __init__(
        self,
        graph: G,
        analyses: Iterable[Provider[G]] = (),
        verify: Callable[[G], Iterable[str]] | None = None,
        instruments: Iterable[Instrument[G]] = (),
    ) -> None:
        self.graph = graph
        self.facts = Facts(graph)
        self._verify = verify
        self._instruments = tuple(instruments)
        self._providers: dict[FactKey, Provider[G]] = {}
        for analyse in analyses:
            self._add(analyse)
        self._check_rules("the graph before any pass")

    def _add(self, provider: Provider[G]) -> None:
        other = self._providers.setdefault(provider.key, provider)
        if other is not provider:
            raise RegistryError(
                f"{provider.key}", got=f"the analyses {other.name} and {provider.name}", need="one that provides it"
            )

    def get(self, fact: Fact[T]) -> T:
        """The fact's value at the graph's present version, computed now if it is missing or stale."""
        self._ensure([fact])
        return self.facts[fact]

    def run(self, *transforms: Transform[G]) -> Changed:
        """Run the transforms in order; the sum of their changes.

        Raises VerificationError that names a pass which breaks a rule or its own promise.
        """
        return sum(map(self._run, transforms), Changed())

    def _run(self, transform: Transform[G]) -> Changed:
        self._ensure(transform.requires)
        kept = [key for key in transform.preserves if key in self.facts]
        before = self.graph.version
        with self._watched(transform.name):
            changed = transform.apply(self.graph, self.facts)
            if bool(changed.count) != (self.graph.version != before):
                edits = self.graph.version - before
                raise VerificationError(
                    f"pass {transform.name} declares {changed.count} changes and made {edits} edits"
                )
            self.facts.preserve(*kept)
            if self.graph.version != before:
                self._check_rules(f"pass {transform.name}")
        return changed

    def _ensure(self, keys: Iterable[FactKey]) -> None:
        """Compute what is missing, requirements first."""
        work = list(keys)[::-1]
        while work:
            key = work[-1]
            if key in self.facts:
                work.pop()
                continue
            provider = self._provider(key)
            missing = [need for need in provider.requires if need not in self.facts]
            if any(need in work for need in missing):
                chain = " -> ".join(other.name for other in (*work, *missing))
                raise RegistryError(f"{key}", got=f"facts that require each other: {chain}", need="an order")
            if missing:
                work.append(missing[0])
            else:
                self._provide(provider)

    def _provider(self, key: FactKey) -> Provider[G]:
        provider = self._providers.get(key)
        if provider is None:
            raise RegistryError(f"{key}", got="no analysis that provides it", need="one", fix="add it to the manager")
        return provider

    def _provide(self, provider: Provider[G]) -> None:
        before = self.graph.version
        with self._watched(provider.name):
            provider.provide(self.graph, self.facts)
            if self.graph.version != before:
                raise VerificationError(f"analysis {provider.name} changed the graph")

    @contextmanager
    def _watched(self, name: str) -> Iterator[None]:
        for instrument in self._instruments:
            instrument.before(name, self.graph)
        try:
            yield
        except Exception as error:
            error.add_note(f"while the pass {name} was running")
            raise
        for instrument in self._instruments:
            instrument.after(name, self.graph)

    def _check_rules(self, culprit: str) -> None:
        faults = [] if self._verify is None else list(self._verify(self.graph))
        if faults:
            raise VerificationError(f"{culprit} breaks {len(faults)} rules: " + "; ".join(faults))
