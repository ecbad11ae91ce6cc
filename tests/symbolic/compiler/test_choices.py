"""Kernels of a compiled graph: measured and kept, or fixed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from nnc.concrete import TuneCache, TuneOptions
from nnc.concrete.choices import FILE_NAME
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import F32, TOLERANCE
from nnc.core.values.spec import spec
from nnc.errors import UsageError
from nnc.ops.convolutions.convolutions import convolution
from nnc.ops.convolutions.window import Window
from nnc.ops.products.products import gemm
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile

pytestmark = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="LLVM is absent")


@dataclass(slots=True)
class Descending:
    """A clock by which each run takes a little less than the one before."""

    step: float = 1000.0
    now: float = 0.0
    asked: int = 0

    def __call__(self) -> float:
        self.asked += 1
        self.step *= 0.99
        self.now += self.step
        return self.now


@dataclass(slots=True)
class Program:
    """y = (convolution of x and w with a kernel of 3 x 3) @ v"""

    compiled: Compiled
    inputs: tuple[Symbol, ...]
    y: Symbol

    def run(self) -> np.ndarray:
        generator = np.random.default_rng(0)
        values = {symbol: generator.uniform(-0.1, 0.1, symbol.shape) for symbol in self.inputs}
        return self.compiled(values, self.y)[0]

    @property
    def text(self) -> str:
        return str(self.compiled.allocate())


def program(**options: object) -> Program:
    graph = SymbolicGraph()
    shapes = {"x": (1, 12, 12, 16), "w": (3, 3, 16, 16), "v": (16, 100)}
    x, w, v = (graph.input(spec(shape), name) for name, shape in shapes.items())
    y = gemm(convolution(x, w, window=Window((1, 1), ((1, 1), (1, 1)), (1, 1))), v)
    return Program(compile(graph, [y], **options), (x, w, v), y)  # type: ignore[arg-type]  # options by name


def test_measured_kernels_compute_the_same_in_the_same_memory(tmp_path: Path) -> None:
    fixed = program()
    options = TuneOptions(clock=Descending(), rounds=1, cache=TuneCache(tmp_path))
    tuned = program(autotune=options)
    assert tuned.compiled.memory() == fixed.compiled.memory()
    assert fixed.text.count(" on llvm:") == 0
    assert tuned.text.count(" on llvm:") + tuned.text.count(" on blas") == 2
    row = TOLERANCE[F32]
    np.testing.assert_allclose(tuned.run(), fixed.run(), row.relative, row.absolute)
    assert (tmp_path / FILE_NAME).exists()


def test_choices_are_measured_once(tmp_path: Path) -> None:
    first, second = (TuneOptions(clock=Descending(), rounds=1, cache=TuneCache(tmp_path)) for _ in range(2))
    text = program(autotune=first).text
    assert program(autotune=second).text == text
    assert isinstance(second.clock, Descending)
    assert second.clock.asked == 0


def test_deterministic_kernels_are_the_first_ones_whatever_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    measured = program(autotune=TuneOptions(clock=Descending(), rounds=1))
    assert " on llvm:" in measured.text or " on blas" in measured.text
    fixed, plain = program(deterministic=True), program()
    assert fixed.text == plain.text != measured.text
    assert fixed.run().tobytes() == plain.run().tobytes() == program(deterministic=True).run().tobytes()
    with pytest.raises(UsageError, match="autotune: got a deterministic graph"):
        fixed.compiled.allocate().autotune()


def test_measured_and_fixed_at_once() -> None:
    with pytest.raises(UsageError, match="compile: got autotune and deterministic; need one of them"):
        program(autotune=True, deterministic=True)


def test_a_memory_limit_keeps_what_was_asked(tmp_path: Path) -> None:
    options = TuneOptions(clock=Descending(), rounds=1, cache=TuneCache(tmp_path))
    need = program().compiled.memory().arena
    assert " on llvm:" in program(autotune=options, memory_limit=need).text
