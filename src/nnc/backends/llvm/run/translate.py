"""Functions of a subset of Python as native code.

    fast = translate(function)        fast(record, 3) does what function(record, 3) does

The subset: `while`, `for … in range`, `if`, `break`, `continue`, `return`, assignments; integers, arrays of them, and
one record, a dataclass of integers, arrays and such records; `+ - * & | ^ << >>`, `//` and `%` of what is not negative,
`min` and `max` of two; comparisons, `and`, `or`, `not` in conditions; calls of functions of the same module in the same
subset. Integers have 64 bits and wrap around; an index is not checked. Annotations say what parameters are: `int`, or
else an array.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, fields, is_dataclass
from textwrap import dedent
from types import FunctionType
from typing import Any, TypeVar

from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.jit import LoadedCode
from nnc.classes import dataclass
from nnc.codegen.ir.builder import ADDRESS, INDEX, Builder, LocalVariable, Module, Type, Value
from nnc.core.running.llvm_library import absence
from nnc.errors import BackendError

Record = TypeVar("Record")

OPERATORS: dict[type[ast.operator], Callable[[Builder, Value, Value], Value]] = {
    ast.Add: lambda b, left, right: b.add(left, right),
    ast.Sub: lambda b, left, right: b.subtract(left, right),
    ast.Mult: lambda b, left, right: b.multiply(left, right),
    ast.FloorDiv: lambda b, left, right: b.quotient(left, right),
    ast.Mod: lambda b, left, right: b.remainder(left, right),
    ast.BitAnd: lambda b, left, right: b.both(left, right),
    ast.BitOr: lambda b, left, right: b.either(left, right),
    ast.BitXor: lambda b, left, right: b.exclusive(left, right),
    ast.LShift: lambda b, left, right: b.emit(INDEX, f"shl i64 {left.text}, {right.text}"),
    ast.RShift: lambda b, left, right: b.emit(INDEX, f"ashr i64 {left.text}, {right.text}"),
}
RELATIONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@dataclass(frozen=True, slots=True)
class RecordField:
    """An integer or an array of a record, or of one that it holds: the names on the way to it."""

    path: tuple[str, ...]
    is_number: bool

    def holder(self, record: object) -> object:
        """The record that holds it."""
        for name in self.path[:-1]:
            record = getattr(record, name)
        return record


@dataclass(frozen=True, slots=True)
class Native:
    """A translated function over a record: arrays are shared with native code, integers go in and come back."""

    code: LoadedCode
    fields: tuple[RecordField, ...]

    def __call__(self, record: object, *numbers: int) -> int:
        """Run it; arrays of the record must be `array("q")`."""
        cells = array("q", bytes(8 * len(self.fields)))
        holders = [each.holder(record) for each in self.fields]
        for place, (each, holder) in enumerate(zip(self.fields, holders, strict=True)):
            value = getattr(holder, each.path[-1])
            cells[place] = value if each.is_number else value.buffer_info()[0]
        kinds = (ctypes.c_void_p, *(ctypes.c_int64 for _ in numbers))
        result = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(self.code.addresses[0])(cells.buffer_info()[0], *numbers)
        for place, (each, holder) in enumerate(zip(self.fields, holders, strict=True)):
            if each.is_number:
                setattr(holder, each.path[-1], cells[place])
        return int(result)


def translate(function: Callable[..., int]) -> Native:
    """`function` and what it calls, compiled; BackendError, with the line, for what is outside the subset."""
    if why := absence():
        raise BackendError("translate", got=why, need="llvmlite", fix="pip install llvmlite")
    if not isinstance(function, FunctionType):
        raise BackendError("translate", got=repr(function), need="a function written in Python")
    sources = _sources(function)
    record = _record_of(function)
    cells = tuple(_fields_of(record))
    places = {cell.path: place for place, cell in enumerate(cells)}
    numbers = frozenset(cell.path for cell in cells if cell.is_number)
    module = Module(engine().target)
    for name, tree in sources.items():
        _Translator(module, name, tree, function.__globals__, places, numbers, record.__name__).write()
    code = engine().jit.load(module, (function.__name__,))
    return Native(code, cells)


def _record_of(function: FunctionType) -> type[Any]:
    annotation = next(iter(inspect.signature(function).parameters.values())).annotation
    record = function.__globals__.get(annotation) if isinstance(annotation, str) else annotation
    if not isinstance(record, type) or not is_dataclass(record):
        raise BackendError("translate", got=f"{annotation} as first parameter", need="a dataclass of the module")
    return record


def _fields_of(record: type[Any]) -> Iterator[RecordField]:
    """The integers and arrays of a record and of the records in it."""
    names = vars(sys.modules[record.__module__])
    for each in fields(record):
        inner = names.get(each.type) if isinstance(each.type, str) else each.type
        if isinstance(inner, type) and is_dataclass(inner):
            for cell in _fields_of(inner):
                yield RecordField((each.name, *cell.path), cell.is_number)
        else:
            yield RecordField((each.name,), _is_number(each.type))


def _is_number(annotation: object) -> bool:
    return annotation in {int, "int"}


def _sources(function: FunctionType) -> dict[str, ast.FunctionDef]:
    """The syntax of `function` and of all functions that it calls, by name."""
    trees: dict[str, ast.FunctionDef] = {}
    waiting = [function]
    while waiting:
        each = waiting.pop()
        tree = ast.parse(dedent(inspect.getsource(each))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        trees[each.__name__] = tree
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        called = {callee.id for callee in calls if isinstance(callee, ast.Name)}
        for name in sorted(called - {"range", "min", "max"} - set(trees)):
            callee = each.__globals__.get(name)
            if not isinstance(callee, FunctionType):
                raise BackendError("translate", got=f"a call of {name}", need="a function of the module")
            waiting.append(callee)
    return trees


@dataclass(slots=True)
class _Translator:
    """Writes one function: names are stack slots, which LLVM turns into registers."""

    module: Module
    name: str
    tree: ast.FunctionDef
    globals: dict[str, object]
    places: dict[tuple[str, ...], int]
    numbers: frozenset[tuple[str, ...]]
    record: str
    builder: Builder = field(init=False)
    names: dict[str, LocalVariable] = field(default_factory=dict)
    loops: list[tuple[str, str]] = field(default_factory=list)
    result: LocalVariable = field(init=False)
    end: str = ""

    def write(self) -> None:
        """The whole function."""
        parameters = self.tree.args.args
        arguments = [(f"p.{each.arg}", self._kind(each)) for each in parameters]
        self.builder = b = Builder(self.module, self.name, arguments, "i64")
        for value, each in zip(b.arguments, parameters, strict=True):
            self.names[each.arg] = b.variable(value)
        self.result, self.end = b.variable(b.constant(0)), b.label()
        self._block(self.tree.body)
        b.jump(self.end)
        b.open(self.end)
        b.finish(self.result.get())

    def _kind(self, parameter: ast.arg) -> Type:
        return INDEX if _is_number(ast.unparse(parameter.annotation or ast.Name("int"))) else ADDRESS

    def _refuse(self, node: ast.AST) -> BackendError:
        line = self.tree.lineno + getattr(node, "lineno", 0) - 1
        return BackendError("translate", got=f"{ast.unparse(node)} (line {line} of {self.name})", need="the subset")

    # ---- statements

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, given in zip(targets, [self._value(value) for value in values], strict=True):
                    self._assign(target, given)
            case ast.Assign(targets=[target]):
                self._assign(target, self._value(node.value))
            case ast.AugAssign():
                self._assign(node.target, self._operate(node, self._value(node.target), self._value(node.value)))
            case ast.Return():
                self._return(node)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case _:
                self._flow(node)

    def _flow(self, node: ast.stmt) -> None:
        match node:
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
                self._for(node, name)
            case ast.Break():
                self._leave(self.loops[-1][1])
            case ast.Continue():
                self._leave(self.loops[-1][0])
            case _:
                raise self._refuse(node)

    def _leave(self, label: str) -> None:
        """Jump; what follows in the block cannot be reached, but needs a label."""
        self.builder.jump(label)
        self.builder.open(self.builder.label())

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.result.set(self._value(node.value))
        self._leave(self.end)

    def _assign(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                if name in self.names:
                    self.names[name].set(value)
                else:
                    self.names[name] = self.builder.variable(value)
            case ast.Subscript():
                self.builder.store(value, self._value(target.value), self._value(target.slice))
            case ast.Attribute() if (path := self._path(target))[1:] in self.numbers:
                self.builder.store(value, self.names[path[0]].get(), self.places[path[1:]])
            case _:
                raise self._refuse(target)

    def _if(self, node: ast.If) -> None:
        b = self.builder
        yes, no, end = b.label(), b.label(), b.label()
        self._condition(node.test, yes, no)
        for label, body in ((yes, node.body), (no, node.orelse)):
            b.open(label)
            self._block(body)
            b.jump(end)
        b.open(end)

    def _while(self, node: ast.While) -> None:
        b = self.builder
        test, body, end = b.label(), b.label(), b.label()
        b.jump(test)
        b.open(test)
        self._condition(node.test, body, end)
        b.open(body)
        self._body(node.body, test, end)
        b.jump(test)
        b.open(end)

    def _for(self, node: ast.For, name: str) -> None:
        b = self.builder
        assert isinstance(node.iter, ast.Call)
        bounds = [self._value(bound) for bound in node.iter.args]
        low, high = bounds if len(bounds) == 2 else (b.constant(0), *bounds)
        counter = b.variable(low)
        test, body, step, end = b.label(), b.label(), b.label(), b.label()
        b.jump(test)
        b.open(test)
        b.branch(b.compare("<", counter.get(), high), body, end)
        b.open(body)
        self._assign(ast.Name(name), counter.get())
        self._body(node.body, step, end)
        b.jump(step)
        b.open(step)
        counter.set(counter.get() + 1)
        b.jump(test)
        b.open(end)

    def _body(self, statements: Iterable[ast.stmt], following: str, end: str) -> None:
        self.loops.append((following, end))
        self._block(statements)
        self.loops.pop()

    # ---- conditions and values

    def _condition(self, node: ast.expr, yes: str, no: str) -> None:
        """Jump to `yes` or `no`; operands of `and` and `or` are looked at as far as needed."""
        b = self.builder
        match node:
            case ast.Constant(value=True):
                b.jump(yes)
            case ast.UnaryOp(op=ast.Not()):
                self._condition(node.operand, no, yes)
            case ast.BoolOp():
                for each in node.values[:-1]:
                    following = b.label()
                    ends = (following, no) if isinstance(node.op, ast.And) else (yes, following)
                    self._condition(each, *ends)
                    b.open(following)
                self._condition(node.values[-1], yes, no)
            case ast.Compare():
                self._compare(node, yes, no)
            case _:
                b.branch(b.compare("!=", self._value(node), 0), yes, no)

    def _compare(self, node: ast.Compare, yes: str, no: str) -> None:
        b = self.builder
        left = self._value(node.left)
        for place, (relation, operand) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if type(relation) not in RELATIONS:
                raise self._refuse(node)
            right = self._value(operand)
            following = yes if place == len(node.ops) - 1 else b.label()
            b.branch(b.compare(RELATIONS[type(relation)], left, right), following, no)
            if following is not yes:
                b.open(following)
            left = right

    def _value(self, node: ast.expr) -> Value:
        b = self.builder
        match node:
            case ast.Constant(value=int(number)):
                return b.constant(number)
            case ast.Name(id=name) if name in self.names:
                return self.names[name].get()
            case ast.Name(id=name) if isinstance(known := self.globals.get(name), int):
                return b.constant(known)
            case ast.Attribute() if (path := self._path(node))[1:] in self.places:
                kind = INDEX if path[1:] in self.numbers else ADDRESS
                return b.load(self.names[path[0]].get(), self.places[path[1:]], kind)
            case ast.Subscript():
                return b.load(self._value(node.value), self._value(node.slice), INDEX)
            case ast.BinOp():
                return self._operate(node, self._value(node.left), self._value(node.right))
            case ast.UnaryOp(op=ast.USub()):
                return b.subtract(b.constant(0), self._value(node.operand))
            case ast.Call():
                return self._call(node)
            case _:
                raise self._refuse(node)

    def _path(self, node: ast.expr) -> tuple[str, ...]:
        """The names of `record.name` or `record.inner.name`; none of anything else."""
        match node:
            case ast.Name(id=name) if name in self.names:
                return (name,)
            case ast.Attribute() if path := self._path(node.value):
                return (*path, node.attr)
            case _:
                return ()

    def _operate(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
        if type(node.op) not in OPERATORS:
            raise self._refuse(node)
        return OPERATORS[type(node.op)](self.builder, left, right)

    def _call(self, node: ast.Call) -> Value:
        assert isinstance(node.func, ast.Name)
        b, name = self.builder, node.func.id
        values = [self._value(argument) for argument in node.args]
        if name in {"min", "max"} and len(values) == 2:
            return b.least(*values) if name == "min" else b.greatest(*values)
        arguments = ", ".join(f"{value.type} {value.text}" for value in values)
        return b.emit(INDEX, f"call i64 @{name}({arguments})")
