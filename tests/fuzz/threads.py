"""Predictions of many threads in one model, while another thread trains another one.

Each thread asks for the outputs of its own inputs, of two batch sizes in turn, by `predict`, by a step and by the
compiled program, and compares bits with what the same model said when it was alone. The trained model must end with the
bits of one that was trained alone.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nnc import nn
from nnc.symbolic import Compiled, Symbol

THREADS = 8
SIZES = (3, 5)
INPUTS = 8
# Updates that are repeated alone, to compare: all of a short campaign, the first of a long one.
REPEATED = 20_000

Array = NDArray[np.generic]


@dataclass
class Report:
    """How many answers there were of each kind, how many were wrong, and whether training was as it is alone."""

    answers: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    updates: int = 0
    training_right: bool = True
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Nothing was wrong."""
        return self.training_right and not self.wrong and not self.errors

    def __str__(self) -> str:
        return json.dumps(
            {
                "answers": self.answers,
                "wrong": dict(self.wrong),
                "updates": self.updates,
                "training_right": self.training_right,
                "errors": self.errors,
                "seconds": round(self.seconds, 1),
            }
        )


def network(seed: int, backend: str) -> nn.Model:
    """A small model."""
    layer = nn.Sequential(nn.Dense(16), nn.Tanh(), nn.Dense(4))
    return nn.Model(layer, (8,), loss=nn.MeanSquaredError(), seed=seed, backend=backend)


def run_campaign(count: int, seed: int = 0, backend: str = "") -> Report:
    """At least `count` answers."""
    report, stop = Report(), threading.Event()
    asked, trained = network(seed, backend), network(seed + 1, backend)
    workers = [_Asker(asked, seed + number, -(-count // THREADS)) for number in range(THREADS)]
    trainer = threading.Thread(target=_train, args=(trained, seed, stop, report))
    threads = [threading.Thread(target=worker.run) for worker in workers]
    begin = time.monotonic()
    with _often_switched():
        for thread in (trainer, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        trainer.join()
    report.seconds = time.monotonic() - begin
    for worker in workers:
        report.answers += worker.answers
        report.wrong.update(worker.wrong)
        report.errors.extend(worker.errors)
    return report


@dataclass(eq=False)
class _Asker:
    """A thread's inputs with the right answers to them, and what it got."""

    model: nn.Model
    seed: int
    count: int
    answers: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        generator = np.random.default_rng(self.seed)
        shapes = [(SIZES[number % len(SIZES)], 8) for number in range(INPUTS)]
        self.inputs = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
        self.right = [self.model.predict(x).tobytes() for x in self.inputs]

    def run(self) -> None:
        try:
            while self.answers < self.count:
                self._ask(self.answers)
                self.answers += 1
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    def _ask(self, turn: int) -> None:
        x, right = self.inputs[turn % INPUTS], self.right[turn % INPUTS]
        kind = ("predict", "predict", "step", "program")[turn // INPUTS % 4]
        if _answer(self.model, kind, x).tobytes() != right:
            self.wrong[kind] += 1


def _answer(model: nn.Model, kind: str, x: Array) -> Array:
    if kind == "predict":
        return model.predict(x)
    step = model.prediction_step(len(x))
    if kind == "step":
        return step.run(x)[0]
    program: Compiled = step.compiled
    output: Symbol = step.results[0]
    return program({step.inputs[0]: x}, output)[0]


def _train(model: nn.Model, seed: int, stop: threading.Event, report: Report) -> None:
    generator = np.random.default_rng(seed)
    x, y = generator.standard_normal((SIZES[0], 8)), generator.standard_normal((SIZES[0], 4))
    try:
        early = _bits(model) if stop.is_set() else b""
        while not stop.is_set():
            model.train_on_batch(x, y)
            if model.updates == REPEATED:
                early = _bits(model)
    except Exception as error:
        report.errors.append(f"training: {type(error).__name__}: {error}")
    report.updates = model.updates
    alone = network(seed + 1, model.backend)
    for _ in range(min(model.updates, REPEATED)):
        alone.train_on_batch(x, y)
    report.training_right = _bits(alone) == (early if model.updates >= REPEATED else _bits(model))


def _bits(model: nn.Model) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in model.tensors().values())


@contextmanager
def _often_switched() -> Iterator[None]:
    """Threads take turns every tenth of a millisecond, so that they meet wherever they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
