"""Random programs: inputs, and steps that append commands. Whatever a step's numbers are, they mean something.

The same program builds the same graph each time; the same seed makes the same program in every process.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from tests.symbolic.rows.control import ALL, FLOATS
from tests.symbolic.rows.scope import Operand, Row, Scope, Step

from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64, I32, I64, DType
from nnc.core.values.spec import Shape, TensorSpec
from nnc.symbolic import Symbol, SymbolicGraph

SHAPES: tuple[Shape, ...] = ((), (3,), (4,), (2, 3), (4, 1), (4, 4), (2, 1, 4), (2, 4, 4, 2), (1, 3, 4, 2))
TYPES = (F32, F32, F32, F64, F64, F16, BF16)
OTHERS = (I64, I32, BOOL)
NEAR = (0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 7, 11)


@dataclass(frozen=True)
class Program:
    """Inputs of `specs`, steps by the rows of `table`, and which of all operands are wanted, counted from the latest.

    With the rows of FLOATS it runs on eager variables as well as on symbols.
    """

    specs: tuple[TensorSpec, ...]
    steps: tuple[Step, ...]
    wanted: tuple[int, ...]
    table: tuple[Row, ...] = field(default=ALL, repr=False)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the inputs."""
        return tuple(spec.shape for spec in self.specs)

    def __repr__(self) -> str:
        return f"Program({', '.join(map(str, self.specs))}; {len(self.steps)} steps)"


@dataclass(frozen=True)
class Built:
    """A program's graph: inputs, symbols that are written in part and come from outside else, and what is wanted."""

    graph: SymbolicGraph
    inputs: list[Symbol]
    outside: list[Symbol]
    operands: list[Symbol]
    wanted: list[Symbol]
    rows: set[str]


def run(program: Program, inputs: Sequence[Operand]) -> tuple[list[Operand], list[Operand]]:
    """All operands in order, and the wanted ones, for a program of the rows of FLOATS."""
    scope = Scope(list(inputs), program.table)
    scope.run(program.steps)
    return scope.operands, _wanted(program, scope)


def build(program: Program, *, unrolled: bool = False) -> Built:
    """The program as a symbolic graph."""
    graph = SymbolicGraph()
    inputs = [graph.input(spec, f"x{place}") for place, spec in enumerate(program.specs)]
    scope = Scope([*inputs], program.table, graph, unrolled, True, [])
    scope.run(program.steps)
    return Built(graph, inputs, scope.outside or [], scope.operands, _wanted(program, scope), scope.used)


def _wanted(program: Program, scope: Scope) -> list[Operand]:
    return [scope.operands[-1 - number % len(scope.operands)] for number in program.wanted]


def random_program(seed: int, *, table: tuple[Row, ...] = ALL, dtypes: Sequence[DType] = (), most: int = 18) -> Program:
    """Program number `seed`; inputs of the first type given, the others now and then."""
    numbers = random.Random(seed)
    first = dtypes[0] if dtypes else numbers.choice(TYPES)
    specs = [TensorSpec(numbers.choice(SHAPES), first) for _ in range(numbers.randint(2, 5))]
    if numbers.random() < 0.4:
        specs.append(TensorSpec(numbers.choice(SHAPES), numbers.choice(dtypes or OTHERS)))
    steps = _steps(numbers, numbers.randint(2, most), 0 if table is FLOATS else 2)
    wanted = tuple(numbers.choice(NEAR) for _ in range(numbers.randint(1, 4)))
    return Program(tuple(specs), steps, wanted, table)


def _steps(numbers: random.Random, count: int, depth: int) -> tuple[Step, ...]:
    return tuple(
        Step(
            numbers.randrange(1 << 20),
            numbers.choice(NEAR),
            numbers.choice(NEAR),
            numbers.randrange(1 << 12),
            _steps(numbers, numbers.randint(0, 5), depth - 1) if depth else (),
        )
        for _ in range(count)
    )


def values_for(symbols: Sequence[Operand], seed: int = 7) -> list[np.ndarray]:
    """Random elements for inputs: between -1.5 and 1.5, small integers, truth values."""
    generator = np.random.default_rng(seed)
    found = []
    for symbol in symbols:
        spec = symbol.spec
        drawn = (
            generator.uniform(-1.5, 1.5, spec.shape) if spec.dtype.is_float else generator.integers(0, 4, spec.shape)
        )
        found.append(np.asarray(drawn % 2 if spec.dtype is BOOL else drawn).astype(spec.dtype.numpy))
    return found


def programs(least: int = 3, most: int = 16, table: tuple[Row, ...] = FLOATS) -> st.SearchStrategy[Program]:
    """Programs on f32, for hypothesis, which makes the smallest that fails."""
    number = st.integers(0, 1 << 10)
    flat = st.builds(Step, number, number, number, number)
    nested = st.builds(Step, number, number, number, number, st.lists(flat, max_size=4).map(tuple))
    specs = st.lists(st.sampled_from(SHAPES).map(TensorSpec), min_size=2, max_size=4).map(tuple)
    steps = st.lists(nested if table is ALL else flat, min_size=least, max_size=most).map(tuple)
    return st.builds(Program, specs, steps, st.lists(number, min_size=1, max_size=3).map(tuple), st.just(table))
