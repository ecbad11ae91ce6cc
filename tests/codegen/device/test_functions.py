"""Mathematics of devices against extended precision, at ordinary numbers, edges and what is far away."""

from __future__ import annotations

import ctypes
import math

import mpmath
import numpy as np
import pytest
from tests.codegen.device.on_host import ALONE, loaded

from nnc.codegen.device.functions import FUNCTIONS, function_text
from nnc.codegen.device.functions_circular import two_over_pi
from nnc.codegen.device.launch import library_text

RNG = np.random.default_rng(0)
ORDINARY = RNG.uniform(-3.0, 3.0, 200)
SIGNED = np.concatenate(
    [ORDINARY, RNG.uniform(-30.0, 30.0, 200), 10.0 ** RNG.uniform(-300, 300, 200), [0.0, 1e22, 2.0**1000]]
)
UNIT = np.concatenate([RNG.uniform(-1.0, 1.0, 300), [1.0, -1.0, 0.5, 1e-20]])
RANGES = {
    "asin": UNIT, "acos": UNIT, "atanh": UNIT[np.abs(UNIT) < 1], "acosh": np.abs(SIGNED) + 1.0,
    "log10": np.abs(SIGNED) + 1e-300,
    "sinh": np.clip(SIGNED, -709.9, 709.9), "cosh": np.clip(SIGNED, -709.9, 709.9), "erfc": np.clip(SIGNED, -30, 26.5),
}  # fmt: skip
EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 3.0, -3.0, 1e308, 5e-324)


def called(name: str):
    single = name.endswith("f") and name != "erf"
    kind = ctypes.c_float if single else ctypes.c_double
    engine = loaded(library_text(name, ALONE))
    function = ctypes.CFUNCTYPE(kind, *[kind] * FUNCTIONS[name].operands)(engine.get_function_address(name))
    function.engine = engine
    return function


def c_function(name: str, operands: int):
    return ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * operands)((name, ctypes.CDLL("libm.so.6")))


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    "name", [name for name, each in FUNCTIONS.items() if each.operands == 1 and name + "f" in FUNCTIONS]
)
def test_functions_of_one_number_are_as_accurate_as_the_format_nearly(name: str) -> None:
    function, worst = called(name), 0.0
    with mpmath.workprec(1300):
        for x in RANGES.get(name, SIGNED):
            want = getattr(mpmath, {"erf": "erf"}.get(name, name))(mpmath.mpf(float(x)))
            got = function(float(x))
            worst = max(worst, float(abs((mpmath.mpf(got) - want) / want))) if want else max(worst, abs(got))
    assert worst < 2e-15, worst


@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if name + "f" in FUNCTIONS))
def test_edges_are_those_of_numpy(name: str) -> None:
    numpy_names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
                   "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}  # fmt: skip
    function = called(name)
    for x in EDGES:
        for y in EDGES if FUNCTIONS[name].operands == 2 else (None,):
            operands = (x,) if y is None else (x, y)
            with np.errstate(all="ignore"):
                if name in ("erf", "erfc", "pow"):
                    want = c_function(name, len(operands))(*operands)
                else:
                    want = float(getattr(np, numpy_names.get(name, name))(*operands))
            got = function(*operands)
            np.testing.assert_allclose(got, want, 1e-14, 0, err_msg=f"{name}{operands}")
            assert math.copysign(1, got) == math.copysign(1, want) or math.isnan(want), (name, operands, got, want)


def test_powers_remainders_and_lengths() -> None:
    power, remainder, hypot, angle = (called(name) for name in ("pow", "fmod", "hypot", "atan2"))
    for x, y in zip(np.abs(SIGNED) + 1e-9, np.clip(RNG.permutation(SIGNED), -40, 40), strict=True):
        x, y = float(x), float(y)
        want = float(np.power(x, y)) if abs(y * math.log(x)) < 700 else None
        if want is not None:
            assert abs(power(x, y) - want) <= 4e-15 * want
    for x, y in zip(SIGNED, RNG.permutation(SIGNED), strict=True):
        x, y = float(x), float(y)
        if y:
            assert remainder(x, y) == math.fmod(x, y), (x, y)
        np.testing.assert_allclose(hypot(x, y), math.hypot(x, y), 1e-15)
        np.testing.assert_allclose(angle(x, y), math.atan2(x, y), 1e-15)
    assert remainder(1.0, 5e-324) == 0.0
    assert remainder(1e308, 3e-320) == math.fmod(1e308, 3e-320)


def test_functions_of_f32_are_those_of_f64_rounded() -> None:
    for name in ("sinf", "cosf", "tanf"):
        function, wide = called(name), getattr(np, name[:-1])
        for x in np.float32(10.0) ** RNG.uniform(-10, 38, 300).astype(np.float32):
            assert np.float32(function(float(x))) == np.float32(wide(np.float64(x)))


def test_the_bits_of_two_over_pi() -> None:
    with mpmath.workprec(2000):
        number = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** (64 * (len(two_over_pi()) - 1))))
    joined = 0
    for word in two_over_pi():
        joined = joined << 64 | word % 2**64
    assert joined == number


def test_the_text_of_a_function_names_itself() -> None:
    assert "@hypot(double %x, double %y)" in function_text("hypot", ALONE)
