"""What Keras says by names, `loss="mse"`, how it names layers, and what an object was made of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from inspect import Signature, signature
from typing import Any, TypeVar

from nnc.arguments import check_made, checked
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError

N = TypeVar("N")
_COUNTS: Counter[str] = Counter()


def named(what: str, name: str, table: Mapping[str, N]) -> N:
    """The row of that name; ArgumentError says what is spelt like it."""
    if name in table:
        return table[name]
    close = get_close_matches(name, table, n=1)
    fix = f"did you mean {close[0]!r}?" if close else ""
    need = f"one of {', '.join(table)}"
    raise ArgumentError("keras", got=f"{what}={name!r}", need=need, fix=fix, origin=caller_origin())


def refused(subject: str, option: str, value: object, fix: str) -> ArgumentError:
    """The error for an option of Keras that has no meaning here."""
    return ArgumentError(subject, got=f"{option}={value!r}", need="what runs here", fix=fix, origin=caller_origin())


class Made:
    """The arguments that made an object, which a file keeps."""

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.args, self.options = args, options


class Constructor:
    """The signature of a class: that of its `__init__`, where `__new__` takes whatever is given."""

    def __get__(self, instance: object, owner: type) -> Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        whole = signature(owner.__init__)  # type: ignore[misc]  # of this class and no other
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def check_constructor(kind: type[Any]) -> None:
    """Let the constructor of a public class of `nnc.keras` check its arguments, also where a subclass calls it."""
    is_ours = kind.__module__.startswith("nnc.keras.") and not kind.__name__.startswith("_")
    if is_ours and kind.__init__ is not object.__init__:
        checked(kind)


class Remembered(HoldsFunctions):
    """An object that remembers what it was made of, which is checked before it is made."""

    __signature__ = Constructor()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_constructor(cls)

    def __new__(cls, *args: Any, **options: Any) -> Any:
        check_made(cls, args, options)
        made = object.__new__(cls)
        object.__setattr__(made, "_made", Made(args, options))
        return made


def snake_case(name: str) -> str:
    """Keras' names of layers: `Conv2D` is conv2d, `LayerNormalization` layer_normalization."""
    apart = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", apart).lower().strip("_")


def fresh_name(kind: str) -> str:
    """`dense`, then `dense_1`, …"""
    _COUNTS[kind] += 1
    return kind if _COUNTS[kind] == 1 else f"{kind}_{_COUNTS[kind] - 1}"


def forget_names() -> None:
    """Number layers from the first again."""
    _COUNTS.clear()
