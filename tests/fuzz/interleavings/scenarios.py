"""What threads do at once, and what must have come of it: the answers that each would have got alone."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np

from nnc import nn, ops
from nnc.concrete import TuneCache, TuneOptions
from nnc.core.settings import SETTINGS
from nnc.core.values.spec import spec
from nnc.dynamic import DynamicGraph
from nnc.errors import UsageError
from nnc.graph import Registry
from nnc.ops.composed.custom import custom_operator
from nnc.ops.operand import apply
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph, compile

X = np.linspace(-1.0, 1.0, 24, dtype=np.float32).reshape(6, 4)
Y = np.linspace(0.0, 1.0, 12, dtype=np.float32).reshape(6, 2)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Works for threads, and a check behind them: what is wrong, if anything."""

    works: Sequence[Callable[[], object]]
    check: Callable[[], str]


def _model(backend: str, seed: int = 3) -> nn.Model:
    layer = nn.Sequential(nn.Dense(5), nn.Tanh(), nn.Dense(2))
    return nn.Model(layer, (4,), loss=nn.MeanSquaredError(), seed=seed, backend=backend)


def _bits(net: nn.Model) -> bytes:
    return b"".join(one.numpy().tobytes() for one in (*net.tensors().values(), *net.states.values()))


def _unlike(wanted: Sequence[object], found: Sequence[object]) -> str:
    return "" if list(wanted) == list(found) else f"{sum(a != b for a, b in zip(wanted, found))} of {len(wanted)} wrong"


def predictions(random: Random, backend: str) -> Scenario:
    """One model, asked by all from its first moment on; programs go and come."""
    net, alone = _model(backend), _model(backend)
    SETTINGS.kept_programs = random.choice((1, 2, 32))
    sizes = [[random.randint(1, 3) for _ in range(3)] for _ in range(3)]
    wanted = {size: alone.predict(X[:size]) for size in (1, 2, 3)}
    found: list[bool] = []

    def ask(number: int) -> None:
        for size in sizes[number]:
            # NumPy's products have other last bits where their operands lie elsewhere.
            found.append(np.allclose(net.predict(X[:size]), wanted[size], atol=1e-6))

    works = [partial(ask, number) for number in range(3)]
    return Scenario(works, lambda: _unlike([True] * 9, found))


def updates(random: Random, backend: str) -> Scenario:
    """Two threads train a model while a third copies it or predicts: states are those between updates."""
    net, alone = _model(backend), _model(backend)
    states, answers = [_bits(alone)], [alone.predict(X).tobytes()]
    for _ in range(4):
        alone.train_on_batch(X, Y)
        states.append(_bits(alone))
        answers.append(alone.predict(X).tobytes())
    seen: list[bool] = []
    look = random.choice(
        (
            lambda: _bits(copy.deepcopy(net)) in states,
            lambda: net.predict(X).tobytes() in answers,
            lambda: net.share().predict(X) is not None,
        )
    )

    def train() -> None:
        for _ in range(2):
            net.train_on_batch(X, Y)

    works = [train, train, lambda: seen.extend(look() for _ in range(3))]
    return Scenario(works, lambda: _unlike([states[-1], 4, True], [_bits(net), net.updates, all(seen)]))


def programs(random: Random, backend: str) -> Scenario:
    """Programs of several sizes in one arena, and a rebinding."""
    made = []
    for rows in (2, 7, 3):
        graph = SymbolicGraph()
        x = graph.input(spec((rows, 4)))
        made.append((compile(graph, [y := ops.tanh(x * 2.0) + 1.0], backend=backend), x, y))
    first = made[0][0]
    inside = [(first, *made[0][1:]), *((one.in_arena_of(first), x, y) for one, x, y in made[1:])]
    found: list[bool] = []

    def ask(number: int) -> None:
        compiled, x, y = inside[number]
        for turn in range(3):
            value = np.full(x.shape, number + turn / 4, np.float32)
            found.append(np.allclose(compiled({x: value}, y)[0], np.tanh(value * 2) + 1, atol=1e-6))

    works = [partial(ask, number) for number in range(3)]
    return Scenario(works, lambda: _unlike([True] * 9, found))


def steps(random: Random, backend: str) -> Scenario:
    """Steps of one model and its results, which are the caller's."""
    net, alone = _model(backend), _model(backend)
    wanted = [alone.prediction_step(size).run(X[:size])[0].tobytes() for size in (2, 3)] * 2
    found: dict[int, bytes] = {}

    def ask(number: int) -> None:
        size = 2 + number % 2
        results = [net.prediction_step(size).run(X[:size])[0] for _ in range(2)]
        found[number] = results[0].tobytes() if results[0].tobytes() == results[1].tobytes() else b""

    works = [partial(ask, number) for number in range(4)]
    return Scenario(works, lambda: _unlike(wanted, [found[number] for number in range(4)]))


def _descend(graph: DynamicGraph, seed: int) -> bytes:
    generator = np.random.default_rng(seed)
    x, w = graph.constant(generator.standard_normal((2 + seed % 2, 3))), graph.variable(np.ones((3, 2)))
    for _ in range(2):
        (slope,) = graph.backward([ops.reduce_sum(ops.square(ops.tanh(x @ w)[:, :1]))], [w])
        w = graph.variable(w.numpy() - 0.1 * slope.numpy())
    return w.numpy().tobytes()


def records(random: Random, backend: str) -> Scenario:
    """One dynamic graph: gradients are each thread's, and nothing is left in the record."""
    graph = DynamicGraph(backend)
    wanted = [_descend(DynamicGraph(backend), seed) for seed in range(3)]
    found: dict[int, bytes] = {}
    works = [lambda seed=seed: found.update({seed: _descend(graph, seed)}) for seed in range(3)]

    def check() -> str:
        gc.collect()
        left = (len(graph.record.execs), len(graph.record.tensors), len(graph.alive()))
        return _unlike([*wanted, (0, 0, 0)], [*(found[seed] for seed in range(3)), left])

    return Scenario(works, check)


def kernels(random: Random, backend: str) -> Scenario:
    """Few kernels are kept: claims are made, dropped and made again."""
    SETTINGS.kept_kernel_bytes = random.choice((1, 1 << 15, 64 << 20))
    lengths = [[random.randint(1, 5) for _ in range(4)] for _ in range(3)]
    found: list[bool] = []

    def ask(row: list[int]) -> None:
        graph = DynamicGraph(backend)
        for length in row:
            value = np.arange(length, dtype=np.float32)
            found.append(np.allclose(ops.square(graph.constant(value)).numpy(), value**2))

    return Scenario([partial(ask, row) for row in lengths], lambda: _unlike([True] * 12, found))


def tuning(random: Random, backend: str) -> Scenario:
    """Kernels of equal programs are measured by several threads with one table of choices."""
    options = TuneOptions(rounds=1, cache=TuneCache(None))
    found: list[bool] = []

    def ask() -> None:
        graph = SymbolicGraph()
        x, w = graph.input(spec((3, 4)), "x"), graph.input(spec((4, 2)), "w")
        compiled = compile(graph, [y := x @ w], backend=backend, autotune=options)
        (result,) = compiled({x: X[:3], w: Y[:4]}, y)
        found.append(np.allclose(result, X[:3] @ Y[:4], atol=1e-5))

    return Scenario([ask, ask], lambda: _unlike([True] * 2, found))


def crosswise(random: Random, backend: str) -> Scenario:
    """Commands that call the next program of a circle: answers are right or refused, and nobody waits for ever."""
    registry, made = Registry("interleavings"), []
    count = random.choice((2, 3))
    calls: dict[int, Callable[[], object]] = {}
    outcomes: list[str] = []

    def called(number: int) -> tuple[Any, Symbol, Symbol]:
        def kernel(attrs: NoAttrs, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            outputs[0][...] = inputs[0]
            calls.pop(number, lambda: None)()

        op = custom_operator(f"call{number}", infer=lambda attrs, specs: specs, kernel=kernel, registry=registry)
        graph = SymbolicGraph()
        x = graph.input(spec([2]))
        y = apply(op, NoAttrs(), x * 2.0) + 1.0
        return compile(graph, [y], backend=backend), x, y

    def ask(number: int) -> None:
        compiled, x, y = made[number]
        try:
            outcomes.append("right" if compiled({x: [1.0, 2.0]}, y)[0].tolist() == [3.0, 5.0] else "wrong")
        except UsageError:
            # In a circle, or on one thread all the way round.
            outcomes.append("refused")

    made.extend(called(number) for number in range(count))
    calls.update({number: partial(ask, (number + 1) % count) for number in range(count)})
    works = [partial(ask, number) for number in range(count)]
    return Scenario(works, lambda: "wrong" if "wrong" in outcomes or len(outcomes) < count else "")


SCENARIOS: Mapping[str, Callable[[Random, str], Scenario]] = {
    one.__name__: one for one in (predictions, updates, programs, steps, records, kernels, tuning, crosswise)
}
