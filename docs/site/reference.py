"""Reference pages from docstrings: one page a public package, every public name once, with its signature and its text.

Docstrings are written as people read them in a terminal: paragraphs, `code`, formulas and tables indented by four
spaces, doctests. That is almost Markdown; what Markdown would take for its own outside of code is escaped. Names in
`code` that have an entry lead to it, here and in the guides.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

DISTRIBUTIONS = (
    "bernoulli", "beta", "expon", "gamma", "laplace", "multivariate_normal", "norm", "poisson", "t", "uniform",
)  # fmt: skip
KERAS = (
    "activations", "callbacks", "constraints", "initializers", "losses", "metrics", "models", "ops", "optimizers",
    "optimizers.schedules", "random", "regularizers", "saving", "utils",
)  # fmt: skip
PACKAGES = (
    "nnc", "nnc.nn", "nnc.nn.data", "nnc.nn.files", "nnc.nn.functional", "nnc.nn.init",
    "nnc.nn.initializers", "nnc.nn.losses", "nnc.nn.utils",
    "nnc.nn.zoo", "nnc.autograd", "nnc.amp", "nnc.distributions", "nnc.func", "nnc.lax", "nnc.utils",
    "nnc.numerics.fft", "nnc.numerics.linalg",
    "nnc.numerics.random", "nnc.numerics.tree", "nnc.numerics.numpy_names.lib.stride_tricks",
    "nnc.numerics.scipy_names.special", *(f"nnc.numerics.scipy_names.stats.{name}" for name in DISTRIBUTIONS),
    "nnc.ops", "nnc.dynamic", "nnc.numerics",
    "nnc.array_api", "nnc.symbolic", "nnc.symbolic.passes", "nnc.symbolic.text", "nnc.concrete", "nnc.onnx",
    "nnc.language", "nnc.language.architectures", "nnc.language.gguf", "nnc.export", "nnc.parallel",
    "nnc.sklearn", "nnc.keras", "nnc.keras.layers", *(f"nnc.keras.{name}" for name in KERAS),
    "nnc.planning", "nnc.graph", "nnc.errors",
)  # fmt: skip
# `re` takes them for its own where they stand.
_SPECIAL = re.compile(r"([\\*_<>\[\]#$|~{}])")


def public_names(module: ModuleType) -> list[str]:
    """Those of `__all__`, or what a package hands on of its modules, or what a module defines; without modules."""
    package = hasattr(module, "__path__")
    listed = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if (home := getattr(value, "__module__", module.__name__ if package else "")) == module.__name__
        or (package and home.startswith(f"{module.__name__}."))
    ]
    return sorted(name for name in listed if not name.startswith("_") and not inspect.ismodule(getattr(module, name)))


def page(
    name: str, introduction: str = "", more: Callable[[str, str], Iterable[str]] = lambda package, member: ()
) -> str:
    """The page of a package; an `introduction` to its examples, and `more(package, member)` behind each docstring."""
    module = import_module(name)
    lines = [f"# {name}", "", markdown(inspect.getdoc(module) or ""), "", introduction]
    for member in public_names(module):
        lines += _entry(name, member, getattr(module, member), more)
    return linked("\n".join(lines) + "\n", name)


@cache
def entries() -> Mapping[str, str]:
    """The anchor of each entry, by what code calls it: in full, from `nnc` on, and a type that is the only one so."""
    found: dict[str, str] = {}
    modules = {name: import_module(name) for name in PACKAGES}
    # A name by itself is ours: that of another library is called in full.
    ours = {name: module for name, module in modules.items() if not name.startswith("nnc.keras")}
    short = Counter(member for module in ours.values() for member in public_names(module))
    for name, module in modules.items():
        for member in public_names(module):
            full = f"{name}.{member}"
            found[full] = found[full.removeprefix("nnc.")] = _anchor(full)
            if name in ours and short[member] == 1 and member[0].isupper() and len(member) > 1:
                found[member] = found[full]
    return found


def _anchor(full: str) -> str:
    """Anchors do not tell capitals: `VARIADIC`, `Variadic` and `variadic` would be one, `DataSet` and `Dataset` too."""
    package, _, name = full.rpartition(".")
    capitals = sum(map(str.isupper, name))
    kind = "constant" if name.isupper() else "name" if name[0].islower() else "types" if capitals == 2 else "type"
    return f"{package}.{kind}{capitals if capitals > 2 and not name.isupper() else ''}.{name}"


def linked(text: str, package: str = "nnc") -> str:
    """Names in code, of the package first, as links to their entries; fenced blocks, links and headings stay."""
    known = entries()

    def link(found: re.Match[str]) -> str:
        name = re.match(r"[\w.]*", found[1])
        asked = name[0].strip(".") if name else ""
        target = known.get(f"{package}.{asked}") if package != "nnc" else None
        target = target or known.get(asked) or known.get(asked.rpartition(".")[0])
        return f"[{found[0]}](#{target})" if target else found[0]

    parts = re.split(
        r"(^```.*?^```|^#.*?$|^(?: {4}).*?$|!?\[[^\]\n]*\]\([^)\n]*\))", text, flags=re.DOTALL | re.MULTILINE
    )
    return "".join(part if at % 2 else re.sub(r"(?<!`)`([^`\n]+)`(?!`)", link, part) for at, part in enumerate(parts))


def other_name(module: ModuleType, name: str) -> str:
    """The name that a function, class or element type has itself, where the module has it by that too; empty else."""
    value = getattr(module, name)
    own = str(getattr(value, "__name__", getattr(value, "name", name)))
    return own if own != name and vars(module).get(own, getattr(module, own, None)) is value else ""


def _entry(package: str, name: str, value: object, more: Callable[[str, str], Iterable[str]]) -> Iterator[str]:
    yield f"({_anchor(f'{package}.{name}')})="
    yield f"## {plain(name)}"
    yield ""
    first = next(one for one in PACKAGES if getattr(import_module(one), name, None) is value)
    if first != package and name in public_names(import_module(first)):
        yield from (f"`{first}.{name}`.", "")
        return
    if own := other_name(import_module(package), name):
        yield from (f"Another name of `{package}.{own}`.", "")
        return
    if callable(value):
        yield from ("```text", _signature(name, value), "```", "")
    described = inspect.isclass(value) or inspect.isroutine(value) or "__doc__" in getattr(value, "__dict__", {})
    text = inspect.getdoc(value) if described else None
    yield markdown(text or f"A {type(value).__name__}: `{_without_addresses(str(value))[:200]}`.")
    yield ""
    yield from more(package, name)
    if inspect.isclass(value):
        for method, function in vars(value).items():
            inner = function.fget if isinstance(function, property) else getattr(function, "__func__", function)
            if not method.startswith("_") and inspect.isfunction(inner) and inspect.getdoc(inner):
                kind = "" if isinstance(function, property) else _signature(method, inner)
                yield f"**{plain(method)}** {f'`{kind}`' if kind else ''}"
                yield ""
                yield markdown(inspect.getdoc(inner) or "")
                yield ""


def _signature(name: str, value: object) -> str:
    try:
        shown = str(inspect.signature(value))
    except (ValueError, TypeError):
        return f"{name}(…)"
    # Annotations are text.
    return _without_addresses(name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown))


def _without_addresses(text: str) -> str:
    """They differ from run to run."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def markdown(text: str) -> str:
    """A docstring as Markdown: code spans and indented lines as they are, doctests fenced, the rest escaped."""
    lines, result, fenced = text.splitlines(), list[str](), False
    for line in lines:
        starts = line.startswith(">>>")
        if starts and not fenced:
            result.append("```python")
        elif fenced and not line.strip():
            result.append("```")
        fenced = starts or (fenced and bool(line.strip()))
        result.append(line if fenced or line.startswith("    ") else _escaped(line))
    return "\n".join([*result, *(["```"] if fenced else [])])


def _escaped(line: str) -> str:
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else plain(part) for part in parts)


def plain(text: str) -> str:
    """Text in which nothing is Markdown's own."""
    return _SPECIAL.sub(r"\\\1", text)
