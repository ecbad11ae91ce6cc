"""The open operator registry: operators are objects, and so are their attributes.

    RELU = Op("relu", attributes=NoAttributes, inputs=("x",), outputs=("y",))
    INPLACE = OpAttr[bool]("inplace")
    INPLACE.set(RELU, True)
    INPLACE[RELU]

An attribute key *is* the column that holds the values, so anyone may define one in any package without touching the
operators, a misspelt key is an unknown name, and a value of the wrong type does not pass the type checker. Names of
operators serve printing and files; names of attributes serve printing only. A registry is an object and each
operator knows its own, so two libraries cannot collide.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Final, Generic, Protocol, TypeGuard, TypeVar
from weakref import WeakValueDictionary

from nnc.arguments import explained
from nnc.classes import dataclass
from nnc.errors import ArityError, AttributeValueError, RegistryError
from nnc.graph.definition_sites import defining_site, is_forgotten

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

OP_LEVEL: Final = 10
GROUP_LEVEL: Final = 1

# Registration is rare and reading needs no lock, so one lock serves all registries.
REGISTRATION = threading.RLock()


class Variadic(Enum):
    """The type of VARIADIC."""

    VARIADIC = "variadic"


VARIADIC: Final = Variadic.VARIADIC

Names = tuple[str, ...] | Callable[[A], tuple[str, ...]] | Variadic


@dataclass(frozen=True, slots=True)
class NoAttributes:
    """The attributes of an operator that has none."""


@explained
class Registry:
    """A set of operators by name, with aliases; register from anywhere, in any order, from any thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ops: dict[str, Op[object]] = {}
        self._names: dict[str, Op[object]] = {}
        self._groups: dict[str, Group] = {}
        self._keys: dict[AttributeKey, None] = {}
        _REGISTRIES[name] = self

    def define(
        self,
        name: str,
        attributes: type[A],
        *,
        inputs: Names[A],
        outputs: Names[A] = ("y",),
        doc: str = "",
        aliases: Iterable[str] = (),
        level: int = OP_LEVEL,
    ) -> Op[A]:
        """The operator of this name: a new one, or the one defined before with the same attributes and arity.

        Raises RegistryError when the earlier definition contradicts this one.
        """
        with REGISTRATION:
            existing = self._names.get(name)
            if existing is None:
                return Op(name, attributes, inputs, outputs, registry=self, doc=doc, aliases=aliases, level=level)
            if not _has_attributes(existing, attributes) or (existing.inputs, existing.outputs) != (inputs, outputs):
                raise RegistryError(
                    f"operator {name}",
                    got="a definition with other attributes, inputs or outputs",
                    need=f"the definition that the registry {self.name!r} holds",
                    fix="choose another name, or another Registry",
                )
            for alias in aliases:
                self.alias(existing, alias)
            return existing

    def alias(self, op: Op[object], name: str) -> None:
        """Let `name` mean `op` too. Raises RegistryError when it means another operator."""
        with REGISTRATION:
            self._check_own(op)
            if self._names.get(name, op) is not op:
                raise self._taken(name)
            self._names[name] = op

    @staticmethod
    def named(name: str) -> Registry:
        """The registry of this name that was made last. Raises RegistryError when there is none."""
        registry = _REGISTRIES.get(name)
        if registry is None:
            got, need = "an unknown name", "one of " + " ".join(sorted(_REGISTRIES))
            raise RegistryError(f"registry {name!r}", got=got, need=need)
        return registry

    def op(self, name: str) -> Op[object]:
        """The operator of this name or alias. Raises RegistryError that suggests near names."""
        registered = self._names.get(name)
        if registered is None:
            raise RegistryError(
                f"operator {name!r}",
                got=f"a name that the registry {self.name!r} does not hold",
                need=f"one of its {len(self._names)} names",
                fix=did_you_mean(name, self._names),
            )
        return registered

    def ops(self) -> tuple[Op[object], ...]:
        """All operators, each once, in order of definition."""
        return tuple(self._ops.values())

    def names(self) -> tuple[str, ...]:
        """All names that `op` accepts, aliases included, sorted."""
        return tuple(sorted(self._names))

    def groups(self) -> tuple[Group, ...]:
        """All groups, in order of definition."""
        return tuple(self._groups.values())

    def attributes_of(self, op: Op[object]) -> tuple[AttributeKey, ...]:
        """The attribute keys that have a value for the operator, in the order in which the registry met them."""
        self._check_own(op)
        return tuple(key for key in tuple(self._keys) if op in key)

    def keys(self) -> tuple[AttributeKey, ...]:
        """The attribute keys that have a value for any operator here."""
        return tuple(self._keys)

    def lacking(self, *keys: AttributeKey) -> tuple[Op[object], ...]:
        """The operators for which none of the keys has a value: empty when a family of rules is closed."""
        return tuple(op for op in self.ops() if not any(op in key for key in keys))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._ops)

    def __copy__(self) -> Registry:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Registry:
        return self

    def __reduce__(self) -> tuple[Callable[[str], Registry], tuple[str]]:
        if _REGISTRIES.get(self.name) is not self:
            raise RegistryError(
                f"registry {self.name!r}",
                got="a name that a later registry has",
                need="a name of its own to be pickled",
            )
        return Registry.named, (self.name,)

    def __repr__(self) -> str:
        return f"Registry({self.name!r}, {len(self)} operators)"

    def _admit(self, op: Op[object], aliases: tuple[str, ...]) -> int:
        """Take a new operator in and return its index; nothing changes when a name is taken.

        One of a module whose import ended in the middle gives way to the same one of the next import.
        """
        with REGISTRATION:
            for name in (op.name, *aliases):
                held = self._names.get(name)
                if held is not None and (held.name != op.name or not is_forgotten(held.site)):
                    raise self._taken(name)
            before = self._ops.get(op.name)
            self._ops[op.name] = op
            self._names.update(dict.fromkeys((op.name, *aliases), op))
            return len(self._ops) - 1 if before is None else before.index

    def meet(self, key: AttributeKey) -> None:
        """Remember a key that has a value for an operator here; called by the key itself."""
        self._keys[key] = None

    def _admit_group(self, group: Group) -> None:
        with REGISTRATION:
            if group.name in self._groups:
                raise RegistryError(f"group {group.name!r}", got="a name in use", need="a new name")
            self._groups[group.name] = group

    def _taken(self, name: str) -> RegistryError:
        return RegistryError(
            f"operator {name!r}",
            got=f"a name that the registry {self.name!r} already holds",
            need="a new name",
            fix="choose another name, or another Registry",
        )

    def _check_own(self, op: Op[object]) -> None:
        if op.registry is not self:
            raise RegistryError(f"operator {op.name}", got=f"an operator of {op.registry}", need=f"one of {self}")


# The last one of each name, for registries and operators that come back from a pickle.
_REGISTRIES: Final[WeakValueDictionary[str, Registry]] = WeakValueDictionary()

default_registry: Final = Registry("nnc")


class Op(Generic[A_co]):
    """`outputs = op(inputs; attributes)`: one operator, equal only to itself.

    `attributes` is a frozen dataclass type; `inputs` and `outputs` are names, a function from the attributes to
    names, or VARIADIC. `level` says how central the operator is (lower is more central).
    """

    __slots__ = (
        "__weakref__",
        "attributes",
        "doc",
        "index",
        "inputs",
        "level",
        "name",
        "outputs",
        "plain",
        "registry",
        "site",
        "values",
    )

    def __init__(
        self,
        name: str,
        attributes: type[A_co],
        inputs: Names[A_co],
        outputs: Names[A_co] = ("y",),
        *,
        registry: Registry = default_registry,
        doc: str = "",
        aliases: Iterable[str] = (),
        level: int = OP_LEVEL,
        groups: Iterable[Group] = (),
    ) -> None:
        _check_attributes_type(name, attributes)
        self.name: Final = name
        # Room for what the layers above make of an operator without attributes, once.
        self.plain: object = None
        # What attribute keys hold for the operator.
        self.values: Final[dict[AttributeKey, object]] = {}
        self.attributes: Final[type[A_co]] = attributes
        self.inputs: Final[Names[A_co]] = inputs
        self.outputs: Final[Names[A_co]] = outputs
        self.registry: Final = registry
        # Which module of ours is being imported, if one is.
        self.site: Final = defining_site()
        self.doc: Final = doc
        self.level: Final = level
        self.index: Final = registry._admit(self, tuple(aliases))
        for group in groups:
            group.include(self)

    @property
    def aliases(self) -> tuple[str, ...]:
        """The other names of the operator, sorted."""
        return tuple(name for name in self.registry.names() if self.registry.op(name) is self and name != self.name)

    def check_attributes(self, attributes: object) -> None:
        """Raise AttributeValueError unless `attributes` is of the operator's attributes type."""
        if not isinstance(attributes, self.attributes):
            raise self._foreign(attributes)

    def _foreign(self, attributes: object) -> AttributeValueError:
        got = f"attributes of type {type(attributes).__name__}"
        return AttributeValueError(self.name, got=got, need=self.attributes.__name__)

    def input_names(self, attributes: object, count: int) -> tuple[str, ...]:
        """The names of `count` inputs. Raises ArityError when the operator takes another number."""
        return self._resolve("input", self.inputs, attributes, count)

    def output_names(self, attributes: object, count: int) -> tuple[str, ...]:
        """The names of `count` outputs. Raises ArityError when the operator gives another number."""
        return self._resolve("output", self.outputs, attributes, count)

    def _resolve(self, side: str, names: Names[A_co], attributes: object, count: int) -> tuple[str, ...]:
        if isinstance(names, Variadic):
            return tuple(f"{side}{position}" for position in range(count))
        if not isinstance(attributes, self.attributes):
            raise self._foreign(attributes)
        expected = names if isinstance(names, tuple) else names(attributes)
        if len(expected) != count:
            raise ArityError(self.name, got=f"{count} {side}s", need=f"{len(expected)} ({', '.join(expected)})")
        return expected

    def __reduce__(self) -> tuple[Callable[[Registry, str], Op[object]], tuple[Registry, str]]:
        # Copied or pickled, an operator is the same object: it is equal only to itself.
        return Registry.op, (self.registry, self.name)

    def __repr__(self) -> str:
        return f"Op({self.name}: {_arity(self.inputs)} -> {_arity(self.outputs)}; {self.attributes.__name__})"


class AttributeKey:
    """What an open attribute is apart from the type of its values: the object's identity, and a name to print."""

    __slots__ = ("__weakref__", "name")

    def __init__(self, name: str) -> None:
        self.name = name

    def __contains__(self, op: Op[object]) -> bool:
        """Whether the operator has a value."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Grant(Protocol):
    """One attribute value that a group gives to each of its members."""

    @property
    def column(self) -> AttributeKey:
        """The attribute."""
        ...

    @property
    def level(self) -> int:
        """The level of the value."""
        ...

    def check(self, op: Op[object]) -> None:
        """Raise RegistryError when the operator cannot take the value."""
        ...

    def give(self, op: Op[object]) -> None:
        """Set the value on the operator."""
        ...


class Group:
    """Operators that share attribute values; members and values may come in either order."""

    __slots__ = ("__weakref__", "_grants", "_members", "name", "registry")

    def __init__(self, name: str, registry: Registry = default_registry) -> None:
        self.name: Final = name
        self.registry: Final = registry
        self._members: dict[Op[object], None] = {}
        self._grants: list[Grant] = []
        registry._admit_group(self)

    @property
    def members(self) -> tuple[Op[object], ...]:
        """The operators of the group, in order of inclusion."""
        return tuple(self._members)

    def include(self, *ops: Op[object]) -> None:
        """Add members; each gets all that the group gives. Raises RegistryError and adds none on a contradiction."""
        with REGISTRATION:
            fresh = [op for op in dict.fromkeys(ops) if op not in self._members]
            for op in fresh:
                self.registry._check_own(op)
                for grant in self._grants:
                    grant.check(op)
            for op in fresh:
                self._members[op] = None
                for grant in self._grants:
                    grant.give(op)

    def give(self, grant: Grant) -> None:
        """Give a value to all members, now and later. Raises RegistryError and gives none on a contradiction."""
        with REGISTRATION:
            if any(other.column is grant.column and other.level == grant.level for other in self._grants):
                got = f"a second value of {grant.column} and level {grant.level}"
                raise RegistryError(f"group {self.name}", got=got, need="one value per attribute and level")
            for op in self._members:
                grant.check(op)
            for op in self._members:
                grant.give(op)
            self._grants.append(grant)

    def __repr__(self) -> str:
        return f"Group({self.name}: {len(self._members)} operators)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean 'a' or 'b'?` for a name near some known ones; empty when there are none."""
    near = get_close_matches(name, known)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def _has_attributes(op: Op[object], attributes: type[A]) -> TypeGuard[Op[A]]:
    return op.attributes is attributes


def _check_attributes_type(name: str, attributes: type[object]) -> None:
    parameters = getattr(attributes, "__dataclass_params__", None)
    if not (is_dataclass(attributes) and parameters is not None and parameters.frozen):
        raise RegistryError(
            f"operator {name}",
            got=f"the attributes type {getattr(attributes, '__name__', attributes)!s}",
            need="a frozen dataclass",
            fix="decorate it with @dataclass(frozen=True, slots=True)",
        )


def _arity(names: Names[A]) -> str:
    if isinstance(names, Variadic):
        return "..."
    return ", ".join(names) if isinstance(names, tuple) else "by attributes"
