"""What a transform makes of a function: called as a function is, and pickled as the transform of that function.

    @transformation                        pickle.dumps(grad(loss)): the name of `grad`, the name of `loss`
    def grad(function, …): …

Pickle keeps functions by their names. One without a name, a lambda or one inside of another function, is a UsageError
that says so, unless who pickles keeps functions by value (cloudpickle, dill).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import update_wrapper, wraps
from types import MethodType
from typing import Any, TypeVar, cast

from nnc.arguments import checked
from nnc.core.precautions.named_functions import NEED, is_named, unnamed
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.tree import Tree
from nnc.errors import UsageError

# `Any`: users' functions.
Function = Callable[..., Any]
T = TypeVar("T", bound=Function)


class Transformed:
    """The function that a transform gave, with what it was given; as of functions, a copy is the same one."""

    def __init__(self, transform: Function, args: tuple[Any, ...], options: dict[str, Any], run: Function) -> None:
        update_wrapper(self, run)
        self._transform, self._args, self._options, self._run = transform, args, options, run

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        """What the function gives."""
        return self._run(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Function:
        # A method, where it stands in a class.
        return self if instance is None else MethodType(self, instance)

    def __copy__(self) -> Transformed:
        return self

    def __deepcopy__(self, memo: object) -> Transformed:
        return self

    def __reduce__(self) -> str | tuple[object, ...]:
        if is_named(self):
            return getattr(self, "__qualname__", "")
        check_named(self._transform.__name__, [*self._args, *self._options.values()])
        return _transformed_again, (self._transform, self._args, self._options)

    def __repr__(self) -> str:
        return f"<{self._transform.__name__} of {getattr(self, '__qualname__', 'a function')}>"


def transformation(transform: T) -> T:
    """A transform whose arguments are checked, and whose results are pickled by its name and what it was given."""
    made = checked(transform)

    @wraps(transform)
    def wrapper(*args: Tree, **options: Tree) -> Transformed:
        return Transformed(wrapper, args, options, made(*args, **options))

    return cast(T, wrapper)


def _transformed_again(transform: Function, args: tuple[Any, ...], options: dict[str, Any]) -> Function:
    made: Function = transform(*args, **options)
    return made


def check_named(subject: str, values: Iterable[object]) -> None:
    """UsageError where pickle would not find a function again that the transform was given."""
    if name := unnamed(values):
        got = f"pickle of {subject}() of {name}, which no module has under this name"
        fix = f"def it there, and {subject}() it under another name; or cloudpickle, which keeps functions by value"
        raise UsageError(subject, got=got, need=NEED, fix=fix, origin=caller_origin())
