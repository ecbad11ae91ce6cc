"""`dataclass` of the standard library in a quarter of the time: there each class is six functions made from text.

    @dataclass(frozen=True, slots=True)     0.9 ms there on Python 3.11, 0.2 ms here: 460 classes for an ONNX file

The constructor alone is written as text, when it is first called. Equality, hash, printing and the refusal to assign
are one function each, for all classes; fields are read by `operator.attrgetter`, so hashes are the same. All else of a
class is the standard library's, and so are classes with what is not needed here: fields in an order, derived ones.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

# The metadata of an option that came later, and that most have not: texts are as before where it is the default.
QUIET: Mapping[str, bool] = {"quiet": True}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    from _typeshed import DataclassInstance
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True, weakref_slot=False):
        """As in the standard library."""

        def decorate(cls: type) -> type:
            return _made(cls, frozen, eq, repr, {"slots": slots, "weakref_slot": weakref_slot})

        return decorate if cls is None else decorate(cls)


def _made(cls: type[T], frozen: bool, eq: bool, printed: bool, options: dict[str, bool]) -> type[T]:
    standard = dataclasses.dataclass
    if any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
        prints = printed and "__repr__" not in vars(cls)
        derived = standard(frozen=frozen, eq=eq, repr=printed, **options)(cls)
        shown = [field for field in dataclasses.fields(derived) if field.repr]  # type: ignore[arg-type]  # of a dataclass
        if prints and any(field.metadata.get("quiet") for field in shown):
            derived.__repr__ = _printer(shown)  # type: ignore[method-assign]  # of a class that is made here
        return derived
    # Without a text of its own a class would have one made of its signature.
    cls.__doc__ = cls.__doc__ or cls.__name__
    own = {name for name, value in vars(cls).items() if (name, value) != ("__hash__", None)}
    made = standard(init=False, repr=False, eq=False, **options)(cls)
    fields = dataclasses.fields(made)  # type: ignore[arg-type]
    methods: dict[str, Callable[..., object] | None] = {}
    if "__init__" not in own:
        methods["__init__"] = _deferred(made, fields, frozen)
    if printed:
        methods["__repr__"] = _printer([field for field in fields if field.repr])
    if eq:
        methods |= _comparison([field for field in fields if field.compare], frozen)
    if frozen:
        methods |= _refusals(made, frozenset(field.name for field in fields), options["slots"])
    for name, method in methods.items():
        if name not in own:
            if method is not None:
                method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
            setattr(made, name, method)
    if options["slots"]:
        # A class with slots is made twice, and its bases see the second one with its methods in the standard library.
        made.__init_subclass__()
    parameters = vars(made)["__dataclass_params__"]
    parameters.init, parameters.repr, parameters.eq, parameters.frozen = True, printed, eq, frozen
    return made


# ---- the methods


class _Signature:
    """The signature of a class whose constructor may not be written yet; what derives from it has its own."""

    def __init__(self, owner: type, written: Callable[[], Callable[..., None]]) -> None:
        self.owner, self.written = owner, written

    def __get__(self, instance: object, asked: type) -> inspect.Signature:
        if asked is not self.owner:
            raise AttributeError("__signature__")
        signature = inspect.signature(self.written())
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def _deferred(made: type[Any], fields: tuple[Field[object], ...], frozen: bool) -> Callable[..., None]:
    """`__init__`, which is written when it is first called: most classes of kernels are not, in most processes."""
    written = cache(lambda: _constructor(made, fields, frozen))

    def initialize(self: object, /, *values: object, **named: object) -> None:
        constructor = written()
        if vars(made)["__init__"] is initialize:
            made.__init__ = constructor
        constructor(self, *values, **named)

    made.__signature__ = _Signature(made, written)
    # Those who look at arguments ask for the parameters.
    initialize.written = written  # type: ignore[attr-defined]  # of a function
    return initialize


def _constructor(made: type, fields: tuple[Field[object], ...], frozen: bool) -> Callable[..., None]:
    """`__init__`, of its text: what defaults and factories make is in variables around it."""
    around: dict[str, object] = {"_set": object.__setattr__, "_MADE": dataclasses._HAS_DEFAULT_FACTORY}  # type: ignore[attr-defined]
    parameters, lines = ["self"], []
    for field in fields:
        name, default = field.name, f"_default_{field.name}"
        has_default, has_factory = field.default is not MISSING, field.default_factory is not MISSING
        if has_default or has_factory:
            around[default] = field.default if has_default else field.default_factory
        if field.init:
            parameters.append(f"{name}={default}" if has_default else f"{name}=_MADE" if has_factory else name)
        if has_factory:
            value = f"{default}() if {name} is _MADE else {name}" if field.init else f"{default}()"
        elif field.init or (has_default and "__slots__" in vars(made)):
            value = name if field.init else default
        else:
            continue
        lines.append(f"_set(self, '{name}', {value})" if frozen else f"self.{name} = {value}")
    lines += ["self.__post_init__()"] if hasattr(made, "__post_init__") else []
    body = "\n  ".join(lines or ["pass"])
    text = f"def make({', '.join(around)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
    written: dict[str, Callable[..., Callable[..., None]]] = {}
    exec(text, vars(sys.modules[made.__module__]), written)
    constructor = written["make"](**around)
    constructor.__qualname__ = f"{made.__qualname__}.__init__"
    constructor.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return constructor


def told(value: object, field: Field[Any]) -> bool:
    """Whether a text says what is in a field: of a quiet one only where it is not the default."""
    return not field.metadata.get("quiet") or getattr(value, field.name) != field.default


def _printer(fields: list[Field[Any]]) -> Callable[[object], str]:
    quiet = any(field.metadata.get("quiet") for field in fields)

    def printed(self: object) -> str:
        names = [field.name for field in fields if not quiet or told(self, field)]
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return reprlib.recursive_repr()(printed)


def _comparison(compared: list[Field[object]], frozen: bool) -> dict[str, Callable[..., object] | None]:
    """`__eq__` and `__hash__` of the tuple of fields."""
    names = [field.name for field in compared]
    content, key = _tuple_of(names), _tuple_of([field.name for field in compared if field.hash is not False])

    def equals(self: object, other: object) -> object:
        if self is other:
            return True
        if type(other) is type(self):
            return content(self) == content(other)
        return NotImplemented

    def hashed(self: object) -> int:
        return hash(key(self))

    return {"__eq__": equals, "__hash__": hashed if frozen else None}


def _tuple_of(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """The fields of an object."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda instance: tuple([getattr(instance, name) for name in names])


def _refusals(made: type[Any], names: frozenset[str], slots: bool) -> dict[str, Callable[..., object]]:
    """What keeps an object as it was made; with slots, also how it is copied and pickled."""

    def assign(self: DataclassInstance, name: str, value: object) -> None:
        if type(self) is made or name in names:
            # What holds values beside its fields says so: layers their tensors.
            if name not in names and getattr(type(self), "takes", None) and self.takes(name, value):  # type: ignore[attr-defined]
                return
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def delete(self: DataclassInstance, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    def state(self: DataclassInstance) -> list[object]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def restore(self: DataclassInstance, values: list[object]) -> None:
        for field, value in zip(dataclasses.fields(self), values):
            object.__setattr__(self, field.name, value)

    methods: dict[str, Callable[..., object]] = {"__setattr__": assign, "__delattr__": delete}
    return methods | {"__getstate__": state, "__setstate__": restore} if slots else methods
