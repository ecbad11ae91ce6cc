"""Mathematics of the C library, which no device and no library of ours has, in the builder's text: a table by name.

    function_text("sinf", target)      a module that defines it

Functions of f32 are those of f64, rounded. Domains and edges are those of IEEE 754 and C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from nnc.classes import dataclass
from nnc.codegen.device import functions_circular as circular
from nnc.codegen.device import functions_elementary as elementary
from nnc.codegen.ir.builder import F32, F64, Builder, Module, Type, Value
from nnc.codegen.ir.target import TargetDescription


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """f(x) or f(x, y) of f64."""

    emit: Callable[..., Value]
    operands: int = 1


_DOUBLE: Mapping[str, DeviceFunction] = {
    "sin": DeviceFunction(circular.sine),
    "cos": DeviceFunction(circular.cosine),
    "tan": DeviceFunction(circular.tangent),
    "asin": DeviceFunction(circular.arc_sine),
    "acos": DeviceFunction(circular.arc_cosine),
    "atan": DeviceFunction(circular.arc_tangent),
    "atan2": DeviceFunction(circular.angle, 2),
    "sinh": DeviceFunction(elementary.sinh),
    "cosh": DeviceFunction(elementary.cosh),
    "tanh": DeviceFunction(elementary.tanh),
    "asinh": DeviceFunction(elementary.asinh),
    "acosh": DeviceFunction(elementary.acosh),
    "atanh": DeviceFunction(elementary.atanh),
    "log10": DeviceFunction(elementary.log10),
    "erf": DeviceFunction(elementary.erf),
    "erfc": DeviceFunction(elementary.erfc),
    "pow": DeviceFunction(elementary.power, 2),
    "hypot": DeviceFunction(elementary.hypot, 2),
    "fmod": DeviceFunction(elementary.remainder, 2),
}
FUNCTIONS: Mapping[str, DeviceFunction] = {**_DOUBLE, **{f"{name}f": each for name, each in _DOUBLE.items()}}


def function_module(name: str, target: TargetDescription) -> Module:
    """A module with the function of this name."""
    function, single = FUNCTIONS[name], name not in _DOUBLE
    kind = Type(F32 if single else F64)
    module = Module(target)
    arguments = [(letter, kind) for letter in "xy"[: function.operands]]
    b = Builder(module, name, arguments, result=str(kind))
    values = [b.cast(each, F64) for each in b.arguments]
    b.finish(b.cast(function.emit(b, *values), kind.scalar))
    return module


@lru_cache(maxsize=64)
def function_text(name: str, target: TargetDescription) -> str:
    """Its text."""
    return str(function_module(name, target))


__all__ = ["FUNCTIONS", "DeviceFunction", "function_module", "function_text"]
