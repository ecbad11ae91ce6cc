"""What a public function takes and refuses, asked of itself: its example runs again with one argument changed.

    nnc.sum([1.0, 2.0])          the example, whose arguments are f32[2] and whose result is f32[]
    nnc.sum("x")                 another kind of thing: the error that it raises, with its message
    nnc.sum([1.0, 2.0], axis=9)  another place

What stands in a reference page is what happened, so it cannot age; a test holds that every refusal is an error of
`nnc.errors`. Element types are asked lazily: results have a spec, and no kernel runs.
"""

from __future__ import annotations

import ast
import inspect
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from io import StringIO

import numpy as np
from reference_examples import rows, said, setup, shown, sources

import nnc

# What stands in the place of an argument, by what it is.
_WRONG = {
    "array": ('"x"', "nnc.ones((2, 5, 1, 5, 2))", "nnc.tensor([True])", "nnc.tensor([1 + 1j])"),
    "number": ('"x"', "-7"),
    "text": ('"no such"', "7"),
    "other": ("object()",),
}
_NAMED = {"axis": "9", "axes": "9", "dtype": '"no such"'}
# One of each kind: what holds for it holds for its neighbours.
_TYPES = ("f32", "f64", "f16", "i32", "bool", "c64")
MOST = 4


@dataclass(frozen=True)
class Refusal:
    """A call, and the error that answers it."""

    call: str
    error: Exception


class Example:
    """The example of a public name as a syntax tree whose arguments can be changed."""

    def __init__(self, package: str, name: str) -> None:
        self.package, self.name = package, name
        self.value = getattr(import_module(package), name)
        self.body = ast.parse(sources(package, name)).body
        home = getattr(self.value, "__module__", None) if name not in rows(package) else None
        self.names = {**shared(package), **vars(import_module(home))} if home else shared(package)
        # The first statement that calls the name; those before it are its own preparations.
        self.at = next((at for at, each in enumerate(self.body) if self._calls(each)), None)
        if self.at is not None:
            with redirect_stdout(StringIO()):
                exec(compile(ast.Module(self.body[: self.at], []), name, "exec"), self.names)

    def _calls(self, node: ast.AST) -> list[ast.Call]:
        """The call of the name, and the one of what it gives, such as that of a layer."""
        calls = [each for each in _outside_functions(node) if isinstance(each, ast.Call)]
        own = [each for each in calls if ast.unparse(each.func).rpartition(".")[2] == self.name][:1]
        return own + [each for each in calls if each.func in own][:1]

    def value_of(self, node: ast.expr) -> object:
        """What an expression of the example is."""
        with redirect_stdout(StringIO()):
            code = compile(ast.Expression(node), self.name, "eval")
            return eval(code, dict(self.names))

    def calls(self) -> list[ast.Call]:
        """Its calls, whose arguments may be changed in place for a while."""
        return [] if self.at is None else self._calls(self.body[self.at])

    def refusals(self) -> Iterator[Refusal]:
        """Each kind of error once for an argument, in the order of arguments."""
        calls = self.calls()
        for call in calls:
            for holder, key, parameter in _places(call):
                seen: set[type] = set()
                kept = holder[key] if isinstance(holder, list) else holder.value
                for wrong in _wrong_of(kept, self, parameter):
                    refusal = self._answer(calls[-1], holder, key, wrong)
                    if refusal is not None and type(refusal.error) not in seen:
                        seen.add(type(refusal.error))
                        yield refusal
            for parameter in _not_given(self.value if call is calls[0] else None, call):
                call.keywords.append(ast.keyword(parameter, ast.Constant(None)))
                refusal = self._answer(calls[-1], call.keywords[-1], "value", _NAMED[parameter])
                call.keywords.pop()
                if refusal is not None:
                    yield refusal

    def _is_own(self, error: Exception) -> bool:
        """Whether a function that the example hands over raised it, not what it calls."""
        innermost = list(traceback.walk_tb(error.__traceback__))[-1][0]
        return innermost.f_code.co_name == "<lambda>" and innermost.f_code.co_filename == self.name

    def _answer(
        self, whole: ast.Call, holder: list[ast.expr] | ast.keyword, key: int | str, wrong: str
    ) -> Refusal | None:
        kept = holder[key] if isinstance(holder, list) else holder.value  # type: ignore[index]
        _put(holder, key, ast.parse(wrong, mode="eval").body)
        try:
            self.value_of(ast.fix_missing_locations(whole))
        except Exception as error:
            return None if self._is_own(error) else Refusal(ast.unparse(whole), error)
        finally:
            _put(holder, key, kept)
        return None


@cache
def _shared(package: str) -> Mapping[str, object]:
    names: dict[str, object] = {}
    exec(setup(package), names)
    return names


def shared(package: str) -> dict[str, object]:
    """What examples of a package may name."""
    return dict(_shared(package))


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it whose names all have values."""
    yield node
    if not isinstance(node, (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.FunctionDef)):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


def _put(holder: list[ast.expr] | ast.keyword, key: int | str, value: ast.expr) -> None:
    if isinstance(holder, list):
        holder[int(key)] = value
    else:
        holder.value = value


def _places(call: ast.Call) -> Iterator[tuple[list[ast.expr] | ast.keyword, int | str, str]]:
    """Where the arguments of a call stand, and their names where those are given."""
    yield from ((call.args, at, "") for at, each in enumerate(call.args) if not isinstance(each, ast.Starred))
    yield from ((each, "value", each.arg) for each in call.keywords if each.arg)


def _not_given(value: object, call: ast.Call) -> list[str]:
    """The parameters of which a wrong value is known, and which the example leaves out."""
    try:
        parameters = list(inspect.signature(value).parameters) if callable(value) else []
    except (ValueError, TypeError):
        return []
    given = parameters[: len(call.args)] + [each.arg for each in call.keywords]
    return [name for name in parameters if name in _NAMED and name not in given]


def _wrong_of(node: ast.expr, example: Example, parameter: str) -> tuple[str, ...]:
    if parameter in _NAMED:
        return (_NAMED[parameter],)
    return _WRONG[_kind(example.value_of(node))]


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float, complex)):
        return "number"
    if isinstance(value, (nnc.Variable, np.ndarray)) or (isinstance(value, list) and value and _holds_numbers(value)):
        return "array"
    return "other"


def _holds_numbers(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_holds_numbers, value))
    return isinstance(value, (int, float, complex, nnc.Variable))


def kinds(example: Example) -> list[tuple[str, str]]:
    """(element types of the arrays of the example, spec of the result), asked without running a kernel."""
    calls = example.calls()
    if not calls:
        return []
    arrays = [(holder, key) for call in calls for holder, key, _ in _places(call) if _is_array(example, holder, key)]
    answers: list[tuple[str, str]] = []
    for name in _TYPES if arrays else ():
        kept = [holder[key] if isinstance(holder, list) else holder.value for holder, key in arrays]  # type: ignore[index]
        for (holder, key), value in zip(arrays, kept, strict=True):
            cast = (
                f"nnc.asarray({ast.unparse(value)}).astype(nnc.{'bool_' if name == 'bool' else _LONG.get(name, name)})"
            )
            _put(holder, key, ast.parse(cast, mode="eval").body)
        try:
            answers.append((name, _specs(example.value_of(ast.fix_missing_locations(calls[-1])))))
        except Exception:
            # `refusals` has those that count.
            continue
        finally:
            for (holder, key), value in zip(arrays, kept, strict=True):
                _put(holder, key, value)
    return answers


_LONG = {"c64": "complex64", "c128": "complex128"}


def _is_array(example: Example, holder: list[ast.expr] | ast.keyword, key: int | str) -> bool:
    node = holder[int(key)] if isinstance(holder, list) else holder.value
    return _kind(example.value_of(node)) == "array"


def _specs(value: object) -> str:
    """`f32[2, 3]`, or several."""
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_specs, value))
    spec = getattr(value, "spec", None)
    return str(spec) if spec is not None else type(value).__name__


def told(package: str, name: str) -> Iterator[str]:
    """What a reference page says of a name beside its docstring: an example of a row, and what its example shows."""
    yield from shown(package, name)
    example = Example(package, name) if callable(getattr(import_module(package), name)) else None
    if example is None:
        return
    types = kinds(example)
    if types:
        yield from (f"Shapes here: {_inputs(example)} → `{types[0][1]}`. Element types: {_joined(types)}.", "")
    refusals = list(example.refusals())[:MOST]
    if refusals:
        yield from ("Refused:", "")
        yield from (f"- `{each.call}`: `{type(each.error).__name__}: {_quoted(each.error)}`" for each in refusals)
        yield ""


def _joined(types: list[tuple[str, str]]) -> str:
    """Those of one result side by side, without its shapes."""
    results: dict[str, list[str]] = {}
    for name, specs in types:
        kinds_of = ", ".join(re.findall(r"\w+(?=\[)", specs))
        results.setdefault("the same" if kinds_of == name else kinds_of or "no array", []).append(name)
    return "; ".join(f"{' '.join(names)} → {result}" for result, names in results.items())


def _inputs(example: Example) -> str:
    """The specs of the arrays that the example hands over."""
    arrays = [
        holder[int(key)] if isinstance(holder, list) else holder.value
        for call in example.calls()
        for holder, key, _ in _places(call)
        if _is_array(example, holder, key)
    ]
    return ", ".join(f"`{nnc.asarray(example.value_of(node)).spec}`" for node in arrays)


def _quoted(error: Exception) -> str:
    return said(error).replace("`", "'")
