"""ONNX's own node tests, run through `nnc.onnx.backend.OnnxBackend`: what each ends as."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import onnx
from nnc.core.dtype import BF16, F16, TOLERANCE
from nnc.errors import UsageError
from nnc.onnx.backend import OnnxBackend

# Sums in 16 bits are rounded in another order: the project's own tolerance for them.
NARROW = (F16.numpy, BF16.numpy)
PASSED, REFUSED, WRONG = "passed", "refused", "wrong"


@cache
def cases() -> dict[str, TestCase]:
    """All node tests of the installed package, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {one.name: one for one in load_model_tests(kind="node")}


def outcome(case: TestCase, backend: str) -> str:
    """`passed`, `refused: why` for one of our errors, `wrong: what`; any other exception comes out."""

    class Preferred(OnnxBackend):
        pass

    Preferred.backend = backend
    try:
        runner = Preferred.prepare(case.model)
        for inputs, outputs in case.data_sets:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = runner.run(inputs)
                expected = _elements(outputs)
                narrow = [TOLERANCE[F16] for one in expected if getattr(one, "dtype", None) in NARROW]
                rtol = max([case.rtol, *(one.relative for one in narrow)])
                atol = max([case.atol, *(one.absolute for one in narrow)])
                Runner.assert_similar_outputs(expected, results, rtol=rtol, atol=atol)
    except UsageError as error:
        return f"{REFUSED}: {error}"
    except AssertionError as error:
        return f"{WRONG}: {' '.join(str(error).split())[:200]}"
    return PASSED


def _elements(outputs: Sequence[Any]) -> list[Any]:
    return [onnx.numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else one for one in outputs]
