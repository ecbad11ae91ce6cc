"""Open operator attributes: keys that are themselves the columns of their values.

`OpAttr[T]` holds values of one type. `OpRule[P, R]` holds functions `(attributes: A, *P) -> R` whose first parameter
is the attributes type of the operator `Op[A]` that they are registered for, so a rule for another operator's
attributes does not pass the type checker. A value of higher level wins; the same level twice is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Concatenate, Generic, ParamSpec, TypeVar, overload
from weakref import WeakKeyDictionary

from nnc.arguments import explained
from nnc.classes import dataclass
from nnc.errors import RegistryError
from nnc.graph.registry import GROUP_LEVEL, OP_LEVEL, REGISTRATION, AttributeKey, Group, Op, Registry, did_you_mean

A = TypeVar("A")
D = TypeVar("D")
T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


@dataclass(slots=True)
class _Ranked(Generic[T]):
    """The value in force, and every level at which one was given."""

    value: T
    level: int
    levels: set[int]


class OpColumn(AttributeKey, Generic[T]):
    """`column[op]`: values by operator, which holds them; the base of OpAttr and OpRule."""

    __slots__ = ("_registries",)
    # Keys are operators, which `ops` gives: Python would ask for numbers.
    __iter__: ClassVar[None] = None

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # Those whose operators have values, in order; a registry must be able to die.
        self._registries: WeakKeyDictionary[Registry, None] = WeakKeyDictionary()

    def ops(self, registry: Registry | None = None) -> tuple[Op[object], ...]:
        """The operators that have a value, in order of definition; of one registry, or of all that live."""
        registries = list(self._registries) if registry is None else [registry]
        return tuple(op for entry in registries for op in entry.ops() if op in self)

    @explained
    def level(self, op: Op[object]) -> int | None:
        """The level of the value in force; None when there is none."""
        ranked = self._find(op)
        return None if ranked is None else ranked.level

    def __contains__(self, op: Op[object]) -> bool:
        return self._find(op) is not None

    def _find(self, op: Op[object]) -> _Ranked[T] | None:
        # Asked some hundred times for each exec that is compiled.
        ranked = op.values.get(self)
        return ranked if isinstance(ranked, _Ranked) else None

    def _require(self, op: Op[object]) -> T:
        ranked = self._find(op)
        if ranked is None:
            known = [other.name for other in self.ops(op.registry)]
            raise RegistryError(
                f"{self.name}[{op.name}]",
                got=f"an operator without {self.name!r}",
                need=f"one of the {len(known)} operators of {op.registry.name!r} that have it",
                fix=did_you_mean(op.name, known) or f"register {self.name!r} for {op.name}",
            )
        return ranked.value

    def _check(self, op: Op[object], level: int) -> None:
        ranked = self._find(op)
        if ranked is not None and level in ranked.levels:
            raise RegistryError(
                f"{self.name}[{op.name}]",
                got=f"a second value of level {level}",
                need="one value per level",
                fix="give another level: the highest one wins",
            )

    def _put(self, op: Op[object], value: T, level: int) -> None:
        with REGISTRATION:
            self._check(op, level)
            op.registry.meet(self)
            self._registries.setdefault(op.registry)
            ranked = self._find(op)
            if ranked is None:
                op.values[self] = _Ranked(value, level, {level})
                return
            ranked.levels.add(level)
            if level > ranked.level:
                ranked.value, ranked.level = value, level


@dataclass(frozen=True, slots=True)
class _GroupValue(Generic[T]):
    """The grant of one value of one column at one level."""

    column: OpColumn[T]
    value: T
    level: int

    def check(self, op: Op[object]) -> None:
        self.column._check(op, self.level)

    def give(self, op: Op[object]) -> None:
        self.column._put(op, self.value, self.level)


@explained
class OpAttr(OpColumn[T]):
    """`INPLACE = OpAttr[bool]("inplace")`: an attribute whose values all have the type T."""

    __slots__ = ()

    def set(self, target: Op[object] | Group, value: T, level: int | None = None) -> None:
        """Give an operator, or all members of a group, a value; groups have the lower level by default.

        Raises RegistryError for a second value of the same level.
        """
        if isinstance(target, Group):
            target.give(_GroupValue(self, value, GROUP_LEVEL if level is None else level))
        else:
            self._put(target, value, OP_LEVEL if level is None else level)

    def register(self, target: Op[object] | Group, level: int | None = None) -> Callable[[T], T]:
        """The decorator form of `set`."""

        def decorate(value: T) -> T:
            self.set(target, value, level)
            return value

        return decorate

    def __getitem__(self, op: Op[object]) -> T:
        return self._require(op)

    @overload
    def get(self, op: Op[object]) -> T | None: ...
    @overload
    def get(self, op: Op[object], default: D) -> T | D: ...
    def get(self, op: Op[object], default: D | None = None) -> T | D | None:
        """The operator's value, or `default`."""
        ranked = self._find(op)
        return default if ranked is None else ranked.value


class OpRule(OpColumn[Callable[..., R]], Generic[P, R]):
    """`INFER = OpRule[[Shape], Shape]("infer")`: functions `(attributes: A, *P) -> R`, checked against `Op[A]`."""

    __slots__ = ()

    def set(self, op: Op[A], rule: Callable[Concatenate[A, P], R], level: int = OP_LEVEL) -> None:
        """Give an operator a rule. Raises RegistryError for a second rule of the same level."""
        self._put(op, rule, level)

    def set_group(self, group: Group, rule: Callable[Concatenate[object, P], R], level: int = GROUP_LEVEL) -> None:
        """Give all members of a group a rule that takes any attributes."""
        grant: _GroupValue[Callable[..., R]] = _GroupValue(self, rule, level)
        group.give(grant)

    def register(
        self, op: Op[A], level: int = OP_LEVEL
    ) -> Callable[[Callable[Concatenate[A, P], R]], Callable[Concatenate[A, P], R]]:
        """The decorator form of `set`."""

        def decorate(rule: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
            self.set(op, rule, level)
            return rule

        return decorate

    def __getitem__(self, op: Op[A]) -> Callable[Concatenate[A, P], R]:
        return self._require(op)

    def get(self, op: Op[A]) -> Callable[Concatenate[A, P], R] | None:
        """The operator's rule, or None."""
        ranked = self._find(op)
        return None if ranked is None else ranked.value
