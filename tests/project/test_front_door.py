"""`import nnc`: few names, each at home in one module, imported when it is first used."""

from __future__ import annotations

import ast
import builtins
from importlib import import_module

import pytest
from tests.forks import LIBRARIES, forking
from tests.project.sources import PACKAGE, tree_of

import nnc


def checked_names() -> set[str]:
    """What a type checker reads: the imports under TYPE_CHECKING."""
    tree = tree_of(PACKAGE / "__init__.py")
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name for node in imports for alias in node.names}
    return names - {"*"} | set(nnc.numerics.__all__) if "*" in names else names


def test_a_type_checker_reads_the_names_that_are_there() -> None:
    assert checked_names() == set(nnc._HOMES) | set(nnc._LAYERS)
    hidden = {name for name in nnc.numerics.__all__ if hasattr(builtins, name)} | {"e"}
    assert set(nnc.__all__) == checked_names() - {"language", "onnx", "sklearn"} - hidden | {"__version__"}
    assert checked_names() <= set(dir(nnc))


@pytest.mark.parametrize("name", sorted(nnc._HOMES))
def test_no_name_shadows_a_module(name: str) -> None:
    assert not any((PACKAGE / place).exists() for place in (name, f"{name}.py"))
    assert getattr(nnc, name) is getattr(nnc, name)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'nnc' has no 'nothing'"):
        nnc.nothing  # type: ignore[attr-defined]
    assert not hasattr(nnc, "_nothing")


def test_element_types_have_the_names_that_are_printed() -> None:
    for dtype in (nnc.f64, nnc.f32, nnc.f16, nnc.bf16, nnc.i64, nnc.i32, nnc.i16, nnc.i8, nnc.u8):
        assert getattr(nnc, str(dtype)) is dtype
    assert str(nnc.bool_) == "bool"


def run(program: str) -> str:
    """What a process prints that has imported nothing of nnc before."""
    code, out, told = forking(LIBRARIES).run(program)
    assert code == 0, told
    return out


def test_the_import_alone_brings_no_layer_with_it() -> None:
    layers = ("nnc.nn", "nnc.numerics", "nnc.dynamic", "nnc.symbolic", "nnc.backends", "llvmlite")
    assert run(f"import sys, nnc; print([name for name in {layers} if name in sys.modules])").strip() == "[]"


def test_a_first_result_takes_one_name() -> None:
    assert run("import nnc; print(nnc.grad(lambda x: (x * x).sum())([1.0, 2.0][0]).item())").strip() == "2.0"


def test_layers_are_attributes_without_an_import_of_their_own() -> None:
    assert run("import nnc; print(nnc.symbolic.SymbolicGraph.__name__, nnc.nn.Dense(3).units)").split() == [
        "SymbolicGraph",
        "3",
    ]


def test_all_names_come_without_an_extra() -> None:
    program = "import sys; sys.modules.update(onnx=None, sklearn=None, PIL=None, pyarrow=None); from nnc import *; nn"
    assert run(program) == ""


@pytest.mark.parametrize("package", ["keras", "nn", "planning", "symbolic", "symbolic.compiler"])
def test_the_table_of_a_face_names_what_a_type_checker_reads(package: str) -> None:
    face = import_module(f"nnc.{package}")
    tree = tree_of(PACKAGE / package.replace(".", "/") / "__init__.py")
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    homes = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            names = import_module(str(node.module)).__all__ if alias.name == "*" else [alias.name]
            homes |= dict.fromkeys(names, node.module)
    modules = {name for name, home in face._HOMES.items() if home.endswith(f".{name}")}
    assert {name: home for name, home in face._HOMES.items() if name not in modules} == {
        name: home for name, home in homes.items() if name not in modules
    }
    assert set(face.__all__) == set(homes)
    assert all(getattr(face, name) is getattr(face, name) for name in face._HOMES)
    assert set(face._HOMES) <= set(dir(face))


def test_layers_are_imported_when_one_is_used() -> None:
    asked = ("nnc.nn.model", "nnc.nn.layers", "nnc.symbolic", "nnc.dynamic", "nnc.planning.portfolio")
    assert run(f"import sys; from nnc import nn; print([name for name in {asked} if name in sys.modules])") == "[]\n"


INTERRUPTED = """
import sys
import nnc

class Interruption:
    def find_spec(self, name, path=None, target=None):
        if name in left:
            left.remove(name)
            raise KeyboardInterrupt

left = {"nnc.ops.rules", "nnc.ops.elementwise.pointwise", "nnc.graph.composition"}
sys.meta_path.insert(0, Interruption())
for _ in range(3):
    try:
        nnc.array([1.0, 2.0])
    except KeyboardInterrupt:
        pass
print((nnc.array([1.0, 2.0]) * 2).tolist(), left)
"""


def test_what_was_interrupted_is_imported_again() -> None:
    """What a package had imported of itself was met without the package. Three times, deeper each time."""
    assert run(INTERRUPTED) == "[2.0, 4.0] set()\n"
