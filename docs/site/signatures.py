"""What type checkers and editors see of words that doors take at run time: `python docs/site/signatures.py` writes it.

    nnc.sum(x, dim=1, keepdim=True)      nnc.add(x, y, out=z)      x.softmax(axis=-1)      nnc.std(x, ddof=1)

Doors translate words of another project (`nnc.vocabulary.words`) and take `out=`, `where=` and `initial=`
(`numpy_names.placing`), which no annotation of a decorator can say. So the functions of `nnc.numerics` and the methods
of arrays have a stub each, made of their own signatures and of the tables here. The modules themselves stay checked.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_overloads

import nnc
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.numerics.numpy_names import placing
from nnc.vocabulary.words import translated

PACKAGE = Path(nnc.__file__).parent
FUNCTIONS, METHODS = PACKAGE / "numerics" / "__init__.pyi", PACKAGE / "dynamic" / "arrays" / "worded" / "__init__.pyi"
# Modules of functions, which are seen by their stubs where they are asked of the front door.
WORDED = {name: PACKAGE / "numerics" / f"worded_{name}.pyi" for name in ("fft", "linalg", "random")}
# Each school's words for ours; a signature in which one of them stands is an overload of its own.
SCHOOLS: tuple[Mapping[str, str], ...] = (
    {"axis": "dim", "keepdims": "keepdim", "k": "diagonal", "shape": "size"},
    {"axis": "dims"},
    {"dim": "axis", "dims": "axis", "keepdim": "keepdims"},
    {"correction": "ddof"},
)
# What functions of PyTorch call so; the others have one axis, or `dim` for several.
DIMS = {"flip", "permute_dims", "roll", "rot90", "tensordot"}
# Shapes are `shape` in all projects, and `size` where PyTorch draws or fills.
SIZED = {"empty", "full", "ones", "zeros"}
DIVIDED = {"std", "var"}
# The modules that know the annotations of words that doors take besides.
WORDS_AT = {
    **dict.fromkeys(("out", "where", "initial"), "nnc.numerics.conversion"),
    "generator": "nnc.numerics.generator",
}
HEAD = '"""{what}\n\nWritten by `python docs/site/signatures.py`."""\n\n'
Signature = tuple[list[inspect.Parameter], str]


@cache
def _origins(module: str) -> tuple[Mapping[str, tuple[str, str]], frozenset[str]]:
    """Where a module has its names from, and what it defines."""
    source = ast.parse(Path(import_module(module).__file__ or "").read_text(encoding="utf-8"))
    imports = [node for node in source.body if isinstance(node, ast.ImportFrom)]
    taken = {alias.asname or alias.name: (str(node.module), alias.name) for node in imports for alias in node.names}
    return taken, frozenset(vars(import_module(module)))


class Annotations:
    """Annotations as text of the stub, and the imports that they need."""

    def __init__(self) -> None:
        self.imports: dict[tuple[str, str], str] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def text(self, annotation: str, module: str) -> str:
        if (annotation, module) not in self._texts:
            self._texts[annotation, module] = self._made(annotation, module)
        return self._texts[annotation, module]

    def _made(self, annotation: str, module: str) -> str:
        tree = ast.parse(annotation, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = self._name(node.id, module)
        return ast.unparse(tree)

    def _name(self, name: str, module: str) -> str:
        taken, defined = _origins(module)
        if name == "np":
            return "_np"
        if name not in taken and (name not in defined or name in vars(builtins)):
            return f"builtins.{name}"
        home = taken.get(name, (module, name))
        if home not in self.imports:
            alias = f"_{home[1]}"
            self.imports[home] = alias + "_" * list(self.imports.values()).count(alias)
        return self.imports[home]

    def lines(self) -> list[str]:
        rows = sorted(self.imports.items())
        return ["import builtins", "import numpy as _np", *(f"from {m} import {n} as {a}" for (m, n), a in rows)]


@cache
def own_signatures(function: Callable[..., Any]) -> list[inspect.Signature]:
    """Those of a function's overloads, or its own; none where annotations are missing or say something else."""
    plain = inspect.unwrap(function)
    if not plain.__module__.startswith("nnc.") or inspect.isgeneratorfunction(plain):
        return []
    rows = [inspect.signature(each) for each in get_overloads(plain) or [plain]]
    noted = all(isinstance(p.annotation, str) or p.name == "self" for row in rows for p in row.parameters.values())
    return rows if noted and all(isinstance(row.return_annotation, str) for row in rows) else []


def renamed(row: inspect.Signature, words: Mapping[str, str], name: str) -> inspect.Signature | None:
    """The signature in another school's words, as doors translate them; None where it has none of ours."""
    rows = list(row.parameters.values())
    named = {
        each.name: words[each.name]
        for each in rows
        if each.name in words
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and words[each.name] not in row.parameters
        and (words[each.name] != "dims" or name in DIMS)
        and (words[each.name] != "size" or name in SIZED)
    }
    heard = {theirs: ours for ours, theirs in named.items()}
    if not named or set(translated(dict.fromkeys(heard), row.parameters.keys(), name) or ()) != set(named):
        return None
    changed = [each.replace(name=named.get(each.name, each.name)) for each in rows]
    if name in DIVIDED and "dim" in heard:
        changed.append(inspect.Parameter("unbiased", inspect.Parameter.KEYWORD_ONLY, default=True, annotation="bool"))
    return row.replace(parameters=changed)


def schools(function: Callable[..., Any], name: str) -> list[inspect.Signature]:
    """The signatures of a function, its own first."""
    rows = own_signatures(function)
    known = {word for row in rows for word in row.parameters}
    extra = [
        made
        for row in rows
        for words in SCHOOLS
        if known.isdisjoint(words.values()) and (made := renamed(row, words, name)) is not None
    ]
    return rows + extra


def places(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """`out`, `where`, `initial` and `generator`, where the function's door takes them."""
    if placing.placing(function) is None:
        return []
    plain = inspect.unwrap(function)
    kind = inspect.Parameter.KEYWORD_ONLY
    words = [inspect.Parameter("out", kind, default=None, annotation="Array | None")]
    if plain.__module__ == placing.ELEMENTS or plain.__name__ in placing.REDUCTIONS:
        words.append(inspect.Parameter("where", kind, default=None, annotation="AnyArray | None"))
    if plain.__name__ in {*placing.SUMS, *placing.EXTREMES}:
        words.append(inspect.Parameter("initial", kind, default=None, annotation="AnyArray | None"))
    if "key" in inspect.signature(plain).parameters:
        words.append(inspect.Parameter("generator", kind, default=None, annotation="Generator | None"))
    return words


def definition(name: str, row: inspect.Signature, module: str, known: Annotations) -> str:
    """One `def` of the stub."""
    parameters = []
    for each in row.parameters.values():
        home = WORDS_AT.get(each.name, module)
        default = each.default
        if default is not inspect.Parameter.empty and not isinstance(default, bool | int | float | str | None):
            default = ...
        text = f"{each.name}" if each.name == "self" else f"{each.name}: {known.text(each.annotation, home)}"
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        shown = "..." if default is ... else repr(default)
        parameters.append((each.kind, stars + text + ("" if default is inspect.Parameter.empty else f" = {shown}")))
    return f"def {name}({_joined(parameters)}) -> {known.text(str(row.return_annotation), module)}: ..."


def _joined(parameters: list[tuple[Any, str]]) -> str:
    """The parameters with `/` and `*` between their kinds."""
    words: list[str] = []
    kinds = [kind for kind, _ in parameters]
    for place, (kind, text) in enumerate(parameters):
        if kind is inspect.Parameter.KEYWORD_ONLY and not {inspect.Parameter.VAR_POSITIONAL, kind} & set(kinds[:place]):
            words.append("*")
        words.append(text)
        if kind is inspect.Parameter.POSITIONAL_ONLY and kinds[place + 1 : place + 2] != [kind]:
            words.append("/")
    return ", ".join(words)


def definitions(function: Callable[..., Any], name: str, known: Annotations, is_method: bool) -> list[str]:
    """The `def`s of a function whose door takes more words than it says; none of another."""
    rows = schools(function, name)
    if not rows:
        return []
    more = [] if is_method else places(function, name)
    made = []
    for row in rows:
        own = [each for each in more if row.return_annotation in ("Array", "Self") and each.name not in row.parameters]
        last = [*row.parameters.values(), *own]
        rest = [each for each in last if each.kind is each.VAR_KEYWORD]
        made.append(row.replace(parameters=[each for each in last if each not in rest] + rest))
    if made == own_signatures(function):
        return []
    module = inspect.unwrap(function).__module__
    marks = ["@overload\n"] if len(made) > 1 else [""]
    return [marks[0] + definition(name, row, module, known) for row in made]


def functions_stub(package: ModuleType, as_they_are: Callable[[list[str]], Iterable[str]]) -> str:
    """The stub of a module of functions, whose other names stand in it as the lines say."""
    known, bodies = Annotations(), dict[str, list[str]]()
    for name in package.__all__:
        value = getattr(package, name)
        bodies[name] = definitions(value, name, known, is_method=False) if inspect.isfunction(value) else []
    lines = as_they_are([name for name in bodies if not bodies[name]])
    listed = ", ".join(repr(name) for name in package.__all__)
    head = HEAD.format(what=f"The functions of {package.__name__} as type checkers see them.")
    stub = [*known.lines(), "from typing import overload", *lines, f"__all__ = [{listed}]"]
    return head + "\n".join(stub + [line for name in bodies for line in bodies[name]]) + "\n"


def _as_they_are(names: list[str]) -> Iterator[str]:
    """How the front door's stub has what is no `def` in it: imported from its home, or as the package assigns it."""
    source = ast.parse((PACKAGE / "numerics" / "__init__.py").read_text(encoding="utf-8"))
    left = set(names)
    taken, _ = _origins("nnc.numerics")
    worded = left & WORDED.keys()
    yield from (f"from nnc.numerics import {WORDED[name].stem} as {name}" for name in sorted(worded))
    left -= worded
    for node in source.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = import_module(str(node.module))
                wanted = left & set(module.__all__) if alias.name == "*" else left & {alias.asname or alias.name}
                left -= wanted
                inner = alias.name if alias.name != "*" else None
                yield from (f"from {node.module} import {inner or name} as {name}" for name in sorted(wanted))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id in left:
                left.discard(target.id)
                used = {each.id for each in ast.walk(node.value or node) if isinstance(each, ast.Name)}
                rows = sorted((used & taken.keys()) - set(names))
                yield from (f"from {taken[name][0]} import {taken[name][1]} as {name}" for name in rows)
                yield ast.unparse(node)
    assert not left, left


def methods_stub() -> str:
    """The stub of the class that stands in front of the methods of arrays."""
    known, bodies = Annotations(), list[str]()
    for name in sorted(dir(ArrayOperand)):
        value = inspect.getattr_static(ArrayOperand, name)
        if name.startswith("_") or not inspect.isfunction(value):
            continue
        if inspect.unwrap(value).__module__.startswith(ArrayOperand.__module__.rpartition(".")[0]):
            bodies += definitions(value, name, known, is_method=True)
    head = HEAD.format(what="Methods of arrays whose doors take the words of several projects.")
    base = "from nnc.dynamic.arrays.pytorch_methods import PyTorchMethods"
    lines = [*known.lines(), "from abc import ABCMeta", "from typing import overload", base]
    body = "\n".join(line for text in bodies for line in ("    " + text.replace("\n", "\n    ")).split("\n"))
    return f"{head}{chr(10).join(lines)}\n\nclass WordedMethods(PyTorchMethods, metaclass=ABCMeta):\n{body}\n"


def stubs() -> dict[Path, str]:
    """The text of each stub."""
    made = {FUNCTIONS: functions_stub(nnc.numerics, _as_they_are), METHODS: methods_stub()}
    for name, path in WORDED.items():
        module = getattr(nnc.numerics, name)
        home = f"nnc.numerics.{name}"
        made[path] = functions_stub(module, lambda names, home=home: [f"from {home} import {n} as {n}" for n in names])
    return made


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}: {text.count(chr(10))} lines\n")
