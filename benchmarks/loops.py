"""Loops: the buffers that their state takes, what an iteration copies, and how long it lasts; a JSON line each.

    python benchmarks/loops.py [--side N] [--trips N] [--backend NAME] [--only PATTERN]
    python benchmarks/loops.py --side 8 --trips 20000       what an iteration costs beside the work of its kernels

The state are matrices of N x N f32 (256: 262,144 bytes each), as inputs of the graph. `buffers` are the arena's bytes
over those of one matrix, initial values and results included; `copied_bytes` are what copies in the bodies of loops and
branches write in one iteration; `microseconds` are per iteration, the best of five runs. Where JAX can be imported its
loop on the CPU stands beside ours, with donated state: copies in the bodies that XLA makes of it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from types import ModuleType

import numpy as np

from nnc.concrete import CountBelow
from nnc.concrete.body import ConcreteBody, Exec, all_bodies
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.ops import reduce_sum
from nnc.ops.elementwise.pointwise import sigmoid, tanh
from nnc.ops.movement.copy import contiguous
from nnc.symbolic import Symbol, SymbolicGraph, case_of, compile, while_loop

# A step of the state, on our symbols or on JAX's arrays; `m` has the functions that are spelt differently.
Step = Callable[..., tuple[object, ...]]
ROUNDS = 5


class Ours:
    """Functions of symbols."""

    sigmoid = staticmethod(sigmoid)
    tanh = staticmethod(tanh)

    @staticmethod
    def below(x: Symbol, bound: float, step: Callable[[Symbol], Symbol]) -> Symbol:
        """step(x) while the sum of x is below a bound, else x."""
        test = (lambda total: 0 if total.numpy() < bound else -1, [reduce_sum(x)])
        return case_of(x.graph, test, [step], [x], bypass=[x])[0]


class Theirs:
    """The same functions of JAX."""

    def __init__(self, jax: ModuleType) -> None:
        self.jax = jax
        self.sigmoid = jax.nn.sigmoid
        self.tanh = jax.numpy.tanh

    def below(self, x: object, bound: float, step: Callable[[object], object]) -> object:
        """step(x) while the sum of x is below a bound, else x."""
        return self.jax.lax.cond(self.jax.numpy.sum(x) < bound, step, lambda x: x, x)


def lstm(m: Ours | Theirs, h: Symbol, c: Symbol, w: Symbol) -> tuple[object, ...]:
    """One gate for all."""
    gate = m.sigmoid(h @ w)
    cell = gate * c + h
    return gate * m.tanh(cell), cell


def momentum(m: Ours | Theirs, x: Symbol, v: Symbol, w: Symbol) -> tuple[object, ...]:
    """A step along a velocity."""
    velocity = v * 0.9 - x @ w
    return x + velocity, velocity


@dataclass(frozen=True)
class Pattern:
    """A step, and how many matrices its state has."""

    name: str
    state: int
    step: Step


PATTERNS = (
    Pattern("increment", 1, lambda m, x, w: (x + 1.0,)),
    Pattern("product", 1, lambda m, x, w: (x @ w,)),
    Pattern("swap", 2, lambda m, x, y, w: (y, x)),
    Pattern("shift", 2, lambda m, x, y, w: (y, x @ w)),
    Pattern("leapfrog", 2, lambda m, u, before, w: (u @ w - before, u)),
    Pattern("rotate-3", 3, lambda m, x, y, z, w: (y, z, x + w)),
    Pattern("delay-4", 4, lambda m, a, b, c, d, w: (b, c, d, a @ w)),
    Pattern("fibonacci", 2, lambda m, a, b, w: (b, a + b)),
    Pattern("lstm", 2, lstm),
    Pattern("momentum", 2, momentum),
    Pattern("pass-through", 1, lambda m, x, w: (m.below(x, 9.0, lambda x: x @ w),)),
)


def copied_bytes(body: ConcreteBody) -> tuple[int, int]:
    """Copies in the bodies of loops and branches, and the bytes that they write."""
    records = [record for one in all_bodies(body)[1:] for _, record in one.execs.items() if isinstance(record, Exec)]
    copies = [record for record in records if record.command.op is contiguous]
    return len(copies), sum(place.spec.nbytes for record in copies for place in record.outputs if place)


def measure(pattern: Pattern, side: int, trips: int, backend: str) -> dict[str, object]:
    """Our loop: planned, run once to warm up, then timed."""
    graph, matrix = SymbolicGraph(), spec((side, side), "f32")
    w, *starts = [graph.input(matrix) for _ in range(pattern.state + 1)]
    with while_loop(graph, CountBelow(trips)) as loop:
        state = [loop.carry(symbol) for symbol in starts]
        for symbol, value in zip(state, pattern.step(Ours(), *state, loop.capture(w)), strict=True):
            assert isinstance(value, Symbol)
            loop.next(symbol, value)
    results = [loop.result(symbol) for symbol in state]
    draw = np.random.default_rng(0)
    weight = Tensor.from_numpy(draw.standard_normal((side, side), dtype=np.float32) / np.float32(side))
    compiled = compile(graph, results, given={w: weight}, backend=backend)
    begun = draw.standard_normal((side, side), dtype=np.float32)
    copies, nbytes = copied_bytes(compiled.allocate().body)
    best = float("inf")
    for _ in range(ROUNDS + 1):
        for symbol in starts:
            compiled.write(symbol, begun)
        begin = perf_counter()
        compiled.run()
        best = min(best, perf_counter() - begin)
    arena = compiled.memory().arena
    return {
        "state_bytes": pattern.state * matrix.nbytes,
        "arena_bytes": arena,
        "buffers": arena // matrix.nbytes,
        "copies": copies,
        "copied_bytes": nbytes,
        "microseconds": round(best / trips * 1e6, 2),
    }


def bodies_of(text: str) -> Iterator[str]:
    """The computations that while loops of an XLA module run, and those of conditionals."""
    names = set(re.findall(r"(?:body|true_computation|false_computation)=%?([\w.\-]+)", text))
    names |= {
        name
        for names_ in re.findall(r"branch_computations=\{([^}]*)\}", text)
        for name in re.findall(r"[\w.\-]+", names_)
    }
    for block in re.split(r"\n(?=%|ENTRY)", text):
        head = re.match(r"%?([\w.\-]+)", block)
        if head and head[1] in names:
            yield block


def measure_jax(pattern: Pattern, side: int, trips: int) -> dict[str, object]:
    """The same loop by JAX."""
    jax = importlib.import_module("jax")
    theirs = Theirs(jax)

    def run(state: tuple[object, ...], w: object) -> object:
        return jax.lax.fori_loop(0, trips, lambda _, state: pattern.step(theirs, *state, w), state)

    draw = np.random.default_rng(0)
    weight = draw.standard_normal((side, side), dtype=np.float32) / np.float32(side)
    begun = draw.standard_normal((side, side), dtype=np.float32)
    compiled = jax.jit(run, donate_argnums=0).lower(tuple(begun for _ in range(pattern.state)), weight).compile()
    sizes = [
        4 * int(np.prod([int(size) for size in shape.split(",")]))
        for block in bodies_of(compiled.as_text())
        for shape in re.findall(r"= f32\[([\d,]+)\]\S* copy\(", block)
    ]
    best = float("inf")
    for _ in range(ROUNDS + 1):
        state = tuple(jax.numpy.array(begun) for _ in range(pattern.state))
        jax.block_until_ready(state)
        begin = perf_counter()
        jax.block_until_ready(compiled(state, weight))
        best = min(best, perf_counter() - begin)
    return {
        "jax_copies": len(sizes),
        "jax_copied_bytes": sum(sizes),
        "jax_temp_bytes": compiled.memory_analysis().temp_size_in_bytes,
        "jax_microseconds": round(best / trips * 1e6, 2),
    }


def main() -> None:
    """One line per pattern."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--trips", type=int, default=100)
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for pattern in PATTERNS:
        if options.only in ("", pattern.name):
            row = {"loop": pattern.name, **measure(pattern, options.side, options.trips, options.backend)}
            if importlib.util.find_spec("jax"):
                row |= measure_jax(pattern, options.side, options.trips)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
