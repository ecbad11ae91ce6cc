"""What is asked of the execs of a graph at each of its sizes, answered once for many of them: kernels, wishes.

    instance = template.instance(numbers)           a graph for these sizes
    answers.of(instance, key, ask, ())              what ask(command, inputs, outputs) gives for an exec of it

The first answer is asked for with sizes that remember where they come from, so it is a function of these, with guards;
at sizes that meet them it is not asked again (docs/design/0033-programs-for-open-sizes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Generic, TypeVar, cast

from nnc.classes import dataclass
from nnc.concrete import check_outputs
from nnc.core.running.dispatch import (
    DISPATCHER,
    Backend,
    Claim,
    FollowingKernel,
    KernelFormula,
    LayoutPreference,
    Specs,
    kinds_of,
)
from nnc.core.values.command import AnyCommand
from nnc.core.values.derived import Formulas, Known
from nnc.core.values.device import CPU
from nnc.core.values.sizes import Numbers, Renewal, SizeTrace, deciding_sizes, sizes_in
from nnc.errors import NncError
from nnc.symbolic.records import ExecKey
from nnc.symbolic.sharing.templates import GraphInstance

T = TypeVar("T")
Ask = Callable[[AnyCommand, Specs, Specs], T]
# Answers that are kept for each exec: where thresholds lie between sizes, there are some of each side.
MOST_ANSWERS = 12


@dataclass(frozen=True, slots=True, eq=False)
class SizedAnswer(Generic[T]):
    """An answer for all numbers that meet the guards of `formulas`; none where these are None."""

    formulas: Formulas
    answer: T

    def at(self, numbers: list[Known]) -> tuple[T, Renewal] | None:
        """The answer, and what renews it for these numbers."""
        try:
            known = self.formulas.at(numbers)
        except ArithmeticError:
            return None
        return None if known is None else (self.answer, Renewal(known))


@dataclass(slots=True, eq=False)
class SizedAnswers(Generic[T]):
    """The answers of one question, by exec of a template."""

    ask: Ask[T]
    _places: dict[ExecKey, tuple[int, ...]] = field(default_factory=dict)
    _kept: dict[Hashable, list[SizedAnswer[T]]] = field(default_factory=dict)

    def of(self, instance: GraphInstance, key: ExecKey) -> tuple[T, Renewal] | None:
        """The answer for an exec, with what renews it; None for one without sizes, or that cannot be followed."""
        places = self._places.get(key)
        if places is None:
            sizes = sizes_in(instance.sized(key))
            places = self._places[key] = tuple(dict.fromkeys(size.place for size in sizes))
        if not places or not instance.matches_template(key):
            return None
        others = instance.others(key)
        if (answered := self.kept(key, others, instance.numbers)) is not None:
            return answered
        kept = self._kept.setdefault((key, others), [])
        if len(kept) >= MOST_ANSWERS:
            return None
        numbers = [instance.numbers[place] for place in places]
        made = self._traced(instance, key, places, numbers)
        if made is None:
            return None
        kept.insert(0, made)
        return made.at(numbers)

    def kept(self, key: ExecKey, others: Specs, numbers: Numbers) -> tuple[T, Renewal] | None:
        """The answer for an exec that was asked for; None where none holds for these numbers."""
        kept = self._kept.get((key, others), [])
        read = [numbers[place] for place in self._places.get(key, ())]
        for place, known in enumerate(kept):
            if (answered := known.at(read)) is not None:
                if place:
                    kept.insert(0, kept.pop(place))
                return answered
        return None

    def _traced(
        self, instance: GraphInstance, key: ExecKey, places: tuple[int, ...], numbers: list[Known]
    ) -> SizedAnswer[T] | None:
        trace = SizeTrace()
        opened = dict(zip(places, [trace.read(cast(int, number)) for number in numbers], strict=True))
        command, inputs, outputs = Renewal(opened).of(instance.sized(key))
        try:
            with deciding_sizes():
                answer = self.ask(command, inputs, outputs)
        except NncError:  # what is wrong is told where sizes are plain
            return None
        finally:
            formulas = trace.close()
        return SizedAnswer(formulas, answer)


@dataclass(frozen=True, slots=True)
class ClaimFormula:
    """Who runs a command, and the kernel as a function of sizes."""

    backend: Backend
    kernel: KernelFormula


class KnownClaims:
    """The kernels of the execs of a template, and the layouts that they wish for, as functions of its sizes."""

    __slots__ = ("_backend", "_claims", "_preferences")

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._claims = SizedAnswers(self._claimed)
        self._preferences = SizedAnswers(self._wished)

    def of(self, instance: GraphInstance) -> dict[ExecKey, Claim]:
        """Who runs the execs of an instance, as far as that follows from its sizes."""
        claims = {key: self.claim(instance, key) for key in instance.graph.execs}
        return {key: claim for key, claim in claims.items() if claim is not None}

    def claim(self, instance: GraphInstance, key: ExecKey) -> Claim | None:
        """Who runs an exec of an instance; None where that is to be asked."""
        formula, renewal = self._claims.of(instance, key) or (None, None)
        if formula is None or renewal is None:
            return None
        command = instance.graph.execs[key].command
        return Claim(formula.backend, formula.kernel.at(renewal, command, instance.specs(key)[0]))

    def preferences(self, instance: GraphInstance, key: ExecKey) -> tuple[LayoutPreference, ...] | None:
        """What an exec of an instance wishes for; None where that is to be asked."""
        preferences, renewal = self._preferences.of(instance, key) or (None, None)
        return None if renewal is None else renewal.of(preferences)

    def stored_preferences(self, key: ExecKey, others: Specs, numbers: Numbers) -> tuple[LayoutPreference, ...] | None:
        """What an exec wishes for, with the specs of operands without sizes; None where it was not asked for."""
        preferences, renewal = self._preferences.kept(key, others, numbers) or (None, None)
        return None if renewal is None else renewal.of(preferences)

    def _claimed(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> ClaimFormula | None:
        if kinds_of(inputs, outputs) != {CPU.kind}:
            return None
        # A graph that is built with the claim is not checked again, so that the check holds is a guard too.
        check_outputs(command, inputs, outputs)
        claim = DISPATCHER.first(command, inputs, outputs, self._backend)
        kernel = claim.kernel
        return ClaimFormula(claim.backend, kernel.formula()) if isinstance(kernel, FollowingKernel) else None

    def _wished(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> tuple[LayoutPreference, ...]:
        return DISPATCHER.preferences(command, inputs, outputs, self._backend)


@dataclass(frozen=True, slots=True, eq=False)
class SizedClaims:
    """What is known of the kernels of one instance."""

    claims: KnownClaims
    instance: GraphInstance

    def of_execs(self) -> dict[ExecKey, Claim]:
        """Who runs its execs, as far as that is known."""
        return self.claims.of(self.instance)

    def preferences(self, key: ExecKey) -> tuple[LayoutPreference, ...] | None:
        """What an exec wishes for; None where that is to be asked."""
        return self.claims.preferences(self.instance, key)
