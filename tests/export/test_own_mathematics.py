"""Functions of the C library's mathematics are a library's own, on processors without fused multiply-adds too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import Array, run, shared

from nnc import export, ops
from nnc.codegen.device.functions import FUNCTIONS
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.targets import library_target
from nnc.codegen.program.whole import supply_mathematics
from nnc.core.values.dtype import F32, F64, DType
from nnc.core.values.spec import spec
from nnc.symbolic import SymbolicGraph, compile

RANDOM = np.random.default_rng(0).uniform(-1, 1, 23)
FAR = np.array([0.0, -0.0, 0.5, -3.0, 8193.5, -1e6, 3.4e7, 1e20, -3e38, *(20 * RANDOM)])
ROWS: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "sin": (np.sin, FAR),
    "tan": (np.tan, FAR),
    "tanh": (np.tanh, FAR),
    "asin": (np.arcsin, RANDOM),
    "acosh": (np.arccosh, 1 + 50 * np.abs(RANDOM)),
}
TOLERANCE: dict[DType, float] = {F32: 1e-6, F64: 1e-11}


def test_functions_are_near_those_of_numpy_for_all_arguments(tmp_path: Path) -> None:
    cases = {f"{name}_{kind.name}": (name, kind) for name in ROWS for kind in TOLERANCE}
    given = {case: ROWS[name][1].astype(kind.numpy) for case, (name, kind) in cases.items()}
    graph = SymbolicGraph()
    inputs = {case: graph.input(spec(given[case].shape, kind), case) for case, (_, kind) in cases.items()}
    outputs = {f"y_{case}": getattr(ops, name)(inputs[case]) for case, (name, _) in cases.items()}
    program = compile(graph, list(outputs.values()), backend="target:x86-64")
    made = export.library(export.ProgramPorts(program, inputs, outputs), "functions")
    assert set(made.undefined) <= {"memcpy"}
    results = run(shared(made, tmp_path), made, *given.values())
    for (case, (name, kind)), result in zip(cases.items(), results, strict=True):
        right, most = ROWS[name][0](given[case].astype(np.float64)), TOLERANCE[kind]
        np.testing.assert_allclose(result, right, most, most, err_msg=case)


@pytest.mark.parametrize("name", ["x86-64", "thumbv7em", "wasm32"])
def test_what_is_declared_is_defined_once_and_seen_by_nobody(name: str) -> None:
    module = Module(library_target(name).description)
    for function, row in FUNCTIONS.items():
        kind = "float" if function.endswith("f") and function != "erf" else "double"
        module.declare(function, kind, [kind] * row.operands)
    supply_mathematics(module)
    assert not module.declared & FUNCTIONS.keys()
    for function in FUNCTIONS:
        assert (
            str(module).count(f" @{function}(")
            == str(module).count(f"call float @{function}(") + str(module).count(f"call double @{function}(") + 1
        )
    assert str(module).count("define internal ") == str(module).count("define ")
