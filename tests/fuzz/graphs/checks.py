"""What must hold of every program, as a table of checks; each builds its graph afresh.

the oracle is the interpreter: bits of the reference backend must be equal to its bits, and whatever rounds in another
order must agree within the tolerance table, widened by what the program makes of single roundings
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from tests.symbolic.interpreter import Array, Noise, interpret
from tests.symbolic.programs import Built, Program, build, values_for

from nnc import planning
from nnc.core.command import Command
from nnc.core.dtype import BF16, F16, F64, TOLERANCE, DType, Tolerance, dtype_of
from nnc.core.settings import SETTINGS
from nnc.core.tensor import Tensor
from nnc.errors import FormatError, MemoryLimitError, NotDifferentiableError, SymbolError
from nnc.ops import multiply, reduce_sum
from nnc.ops.optimizer import ADAM, SGD, AdamAttrs, SgdAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile, faults, jvp, minimize
from nnc.symbolic.control import CaseAttrs, PythonHolds, WhileAttrs
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dump, parse

# Rewrites in these passes compute the same numbers by the same roundings.
EXACT = frozenset((Pass.COMMON_SUBEXPRESSIONS, Pass.DATA_TRANSFER, Pass.PRUNING, Pass.BRANCHES, Pass.INVARIANTS))
# These round more than the program says.
COARSE = {Pass.BFLOAT16: BF16, Pass.FLOAT16: F16}
WIDENING = 16.0
DISTURBED = 3


class Fault(AssertionError):
    """What a check found."""


@dataclass
class Case:
    """A program, how often it is differentiated, and what it gives without a plan."""

    program: Program
    order: int = 0
    outcomes: set[str] = field(default_factory=set)

    def fresh(self, *, unrolled: bool = False) -> Built:
        """A new graph with its gradients; the wanted values first, then the gradients of each order."""
        built = build(self.program, unrolled=unrolled)
        wanted = [symbol for symbol in built.wanted if symbol.spec.dtype.is_float]
        inputs = [symbol for symbol in built.inputs if symbol.spec.dtype.is_float]
        try:
            for _ in range(self.order if inputs else 0):
                wanted = [*backward(built.graph, [_squared(symbol) for symbol in wanted], inputs)]
                built.wanted.extend(wanted)
        except NotDifferentiableError:
            self.outcomes.add("not differentiable")
        if broken := faults(built.graph):
            raise Fault(f"a new graph breaks {broken[0]}")
        return built

    @cached_property
    def built(self) -> Built:
        """The graph that the oracle runs; nobody changes it."""
        return self.fresh()

    @cached_property
    def arrays(self) -> list[Array]:
        """Elements of the inputs, and of tensors that come from outside in part."""
        return values_for([*self.built.inputs, *self.built.outside])

    @cached_property
    def expected(self) -> list[Array]:
        """The oracle's values."""
        return interpret(self.built.graph, self.built.wanted, self.values(self.built))

    def disturbed(self, coarse: DType) -> list[list[Array]]:
        """Values when every result is off by about one rounding."""
        built = self.built
        return [
            interpret(built.graph, built.wanted, self.values(built), Noise(np.random.default_rng(seed), coarse))
            for seed in range(DISTURBED)
        ]

    def values(self, built: Built) -> dict[Symbol, Array]:
        """The inputs of a graph of this program with their elements."""
        return dict(zip([*built.inputs, *built.outside], self.arrays, strict=True))

    def require_bits(self, got: Sequence[Array], what: str) -> None:
        """The oracle's bits; any not-a-number is as good as another."""
        for place, (one, want) in enumerate(zip(got, self.expected, strict=True)):
            if (one.dtype, one.shape) != (want.dtype, want.shape):
                raise Fault(f"{what}: output {place} is {one.dtype}{one.shape}, not {want.dtype}{want.shape}")
            if one.tobytes() != want.tobytes() and not _same_but_for_nan(one, want):
                raise Fault(f"{what}: output {place} has other bits: {_first(one, want)}")

    def require_close(self, got: Sequence[Array], what: str, coarse: DType = F64) -> None:
        """Within the tolerance table where single roundings, of the type `coarse` at least, do not change much."""
        disturbed = self.disturbed(coarse)
        for place, (one, want) in enumerate(zip(got, self.expected, strict=True)):
            if (one.dtype, one.shape) != (want.dtype, want.shape):
                raise Fault(f"{what}: output {place} is {one.dtype}{one.shape}, not {want.dtype}{want.shape}")
            beside = [values[place] for values in disturbed]
            if bad := _outside(one, want, beside, TOLERANCE[max(coarse, dtype_of(want.dtype), key=_coarseness)]):
                raise Fault(f"{what}: output {place} is off: {bad}")

    def check_plan(self, compiled: Compiled) -> None:
        """The verifier of plans finds no fault, in bodies neither."""
        schemes = [scheme for inner in compiled.ground.inner.values() for scheme in inner]
        layouts = [compiled.ground.layout]
        while schemes:
            scheme = schemes.pop()
            layouts.append(scheme.layout)
            schemes.extend(inner for inners in scheme.inner.values() for inner in inners)
        for layout in layouts:
            if broken := planning.faults(layout.problem, layout.plan):
                raise Fault(f"the plan: {broken[0]}")


def _squared(symbol: Symbol) -> Symbol:
    return reduce_sum(multiply(symbol, symbol))


def _same_but_for_nan(one: Array, want: Array) -> bool:
    if not dtype_of(one.dtype).is_float:
        return False
    lost, missing = np.isnan(one), np.isnan(want)
    kept = ~lost
    return bool(np.array_equal(lost, missing) and one[kept].tobytes() == want[kept].tobytes())


def _first(one: Array, want: Array) -> str:
    differ = np.flatnonzero(np.ravel(one) != np.ravel(want))
    place = int(differ[0]) if len(differ) else 0
    return f"{np.ravel(one)[place]!r} for {np.ravel(want)[place]!r} at {place}"


def _coarseness(dtype: DType) -> float:
    return TOLERANCE[dtype].absolute


def _outside(one: Array, want: Array, beside: Sequence[Array], row: Tolerance) -> str:
    """Where `one` is beyond what is allowed, or nothing."""
    dtype = dtype_of(one.dtype)
    if not dtype.is_float:
        settled = np.all([values == want for values in beside], axis=0)
        return "" if np.array_equal(one[settled], want[settled]) else _first(one[settled], want[settled])
    wide, true = one.astype(np.float64), want.astype(np.float64)
    others = [values.astype(np.float64) for values in beside]
    finite = np.isfinite(true) & np.all([np.isfinite(other) for other in others], axis=0)
    with np.errstate(all="ignore"):
        spread = np.max([np.abs(other - true) for other in others], axis=0)
        allowed = row.absolute + row.relative * np.abs(true) + WIDENING * spread
        off = finite & ~(np.abs(wide - true) <= allowed)
    if not off.any():
        return ""
    place = int(np.flatnonzero(off)[0])
    return f"{np.ravel(wide)[place]!r} for {np.ravel(true)[place]!r} ± {np.ravel(allowed)[place]:.2e} at {place}"


# ---- checks


@contextmanager
def _debug(on: bool = True) -> Iterator[None]:
    before, SETTINGS.debug = SETTINGS.debug, on
    try:
        yield
    finally:
        SETTINGS.debug = before


def run_compiled(
    case: Case,
    built: Built,
    *,
    backend: str = "reference",
    runs: int = 1,
    bound: bool = False,
    streams: int = 1,
    limit: int | None = None,
) -> list[list[Array]]:
    """The wanted values of each run; inputs in the arena, or in tensors of their own."""
    values = case.values(built)
    given = {symbol: Tensor.from_numpy(values[symbol].copy()) for symbol in built.inputs} if bound else {}
    compiled = compile(built.graph, built.wanted, given=given, backend=backend, streams=streams, memory_limit=limit)
    case.check_plan(compiled)
    if limit is not None and compiled.memory().arena > limit:
        raise Fault(f"an arena of {compiled.memory().arena} bytes for a limit of {limit}")
    written = {
        symbol: value for symbol, value in values.items() if symbol not in given and _has_memory(compiled, symbol)
    }
    found = [list(compiled(written, *built.wanted)) for _ in range(runs)]
    for symbol, tensor in given.items():
        if tensor.numpy().tobytes() != values[symbol].tobytes():
            raise Fault(f"the bound input {symbol} was overwritten")
    return found


def _has_memory(compiled: Compiled, symbol: Symbol) -> bool:
    try:
        compiled.tensor(symbol)
    except SymbolError:
        return False
    return True


def check_compiled(case: Case, numbers: random.Random) -> None:
    """Planned is unplanned, twice over: freed memory is not-a-number, and the graph is verified."""
    with _debug(numbers.random() < 0.7):
        for got in run_compiled(case, case.fresh(), runs=2, bound=numbers.random() < 0.5):
            case.require_bits(got, "compiled")


def check_passes(case: Case, passes: Sequence[Pass]) -> None:
    """Each pass leaves a valid graph, and all of them the values: bits, or within what their rounding allows."""
    built = case.fresh()
    coarse = max((COARSE.get(each, F64) for each in passes), key=_coarseness)
    with _debug():
        for each in passes:
            simplify(built.graph, built.wanted, [each])
        got = interpret(built.graph, built.wanted, case.values(built))
        (planned,) = run_compiled(case, built, bound=len(passes) % 2 == 0)
    what = ", ".join(each.name for each in passes)
    if EXACT.issuperset(passes):
        case.require_bits(got, what)
    else:
        case.require_close(got, what, coarse)
    for one, other in zip(planned, got, strict=True):
        if one.tobytes() != other.tobytes() and not _same_but_for_nan(one, other):
            raise Fault(f"{what}: planned and unplanned differ: {_first(one, other)}")


def check_one_pass(case: Case, numbers: random.Random) -> None:
    """One pass alone."""
    check_passes(case, [numbers.choice(list(Pass))])


def check_some_passes(case: Case, numbers: random.Random) -> None:
    """Passes in any order, some of them twice."""
    check_passes(case, numbers.choices(list(Pass), k=numbers.randint(2, 6)))


def check_all_passes(case: Case, numbers: random.Random) -> None:
    """All passes, one after another."""
    order = list(Pass)
    numbers.shuffle(order)
    check_passes(case, order)


def check_texts(case: Case, numbers: random.Random) -> None:
    """Text and JSON give back what was written, and a graph that computes the same."""
    built = case.fresh()
    graph = built.graph
    for place, symbol in enumerate([*built.inputs, *built.outside, *built.wanted]):
        if not symbol.name:
            symbol.named(f"s{place}")
    names = {symbol: symbol.name for symbol in (*built.inputs, *built.outside, *built.wanted)}
    for write, read in ((dump, parse), (save, load)):
        text = write(graph)
        try:
            again = read(text)
        except FormatError:
            if not calls_python(graph):
                raise
            return
        if write(again) != text:
            raise Fault(f"{write.__name__}: another text the second time")
        found = {record.name: again.symbol(key) for key, record in again.tensors.items() if record.name}
        values = {found[symbol.name]: value for symbol, value in case.values(built).items() if symbol.name in found}
        got = interpret(again, [found[names[symbol]] for symbol in built.wanted], values)
        case.require_bits(got, read.__name__)


def calls_python(graph: SymbolicGraph) -> bool:
    """Whether a loop or a branch asks a function of Python, which is no data."""
    waiting = [graph]
    while waiting:
        for _, record in waiting.pop().execs.items():
            attrs = record.command.attrs
            if isinstance(attrs, CaseAttrs) and attrs.function is not None:
                return True
            if isinstance(attrs, WhileAttrs) and isinstance(attrs.test, PythonHolds):
                return True
            waiting.extend(body.graph for _, body in bodies_of(record.command))
    return False


def check_unrolled(case: Case, numbers: random.Random) -> None:
    """A loop is its iterations one after another, and a branch what it would have been."""
    built = case.fresh(unrolled=True)
    # A loop whose length has no bound has no gradient; its unrolled form does.
    got = interpret(built.graph, built.wanted, case.values(built))[: len(case.expected)]
    case.require_close(got, "unrolled")


def check_derivatives(case: Case, numbers: random.Random) -> None:
    """Forward and reverse mode agree: u · (J v) = (Jᵀ u) · v."""
    built = build(case.program)
    outputs = [symbol for symbol in built.wanted if symbol.spec.dtype is F64]
    inputs = [symbol for symbol in built.inputs if symbol.spec.dtype is F64]
    if not outputs or not inputs:
        return
    graph, values = built.graph, case.values(built)
    tangents = [graph.input(symbol.spec) for symbol in inputs]
    seeds = [graph.input(symbol.spec) for symbol in outputs]
    try:
        forward, reverse = jvp(graph, outputs, inputs, tangents), backward(graph, outputs, inputs, seeds)
    except NotDifferentiableError:
        return
    if broken := faults(graph):
        raise Fault(f"forward mode breaks {broken[0]}")
    drawn = values_for([*tangents, *seeds], 11)
    values.update(zip([*tangents, *seeds], drawn, strict=True))
    found = interpret(graph, [*forward, *reverse], values)
    with np.errstate(all="ignore"):
        changes = [u * one for u, one in zip(drawn[len(tangents) :], found, strict=False)]
        returns = [v * one for v, one in zip(drawn, found[len(forward) :], strict=False)]
        one, other = sum(float(part.sum()) for part in changes), sum(float(part.sum()) for part in returns)
        size = sum(float(np.abs(part).sum()) for part in (*changes, *returns))
    if np.isfinite(size) and abs(one - other) > 1e-7 * (1 + size):
        raise Fault(f"u · Jv = {one}, v · Jᵀu = {other}")


def check_carried(case: Case, numbers: random.Random) -> None:
    """An optimizer's step, three times over: parameters and states take over each other's memory."""
    built = build(case.program)
    losses = [_squared(symbol) for symbol in built.wanted if symbol.spec.dtype.is_float]
    parameters = [symbol for symbol in built.inputs if symbol.spec.dtype.is_float]
    if not losses or not parameters or len({symbol.spec.dtype for symbol in losses}) > 1:
        return
    optimizer = Command(SGD, SgdAttrs(0.5)) if numbers.random() < 0.5 else Command(ADAM, AdamAttrs())
    try:
        minimized = minimize(built.graph, optimizer, losses, parameters)
    except NotDifferentiableError:
        return
    carries, scalars = minimized.carries(), minimized.scalars
    state = case.values(built)
    state.update((old, np.zeros(old.shape, old.spec.dtype.numpy)) for old in carries.values() if old not in state)
    state.update(
        (one, np.asarray(0.125 if name == "rate" else 1.0, one.spec.dtype.numpy)) for name, one in scalars.items()
    )
    given = {one: Tensor.from_numpy(state[one].copy()) for one in (*carries.values(), *scalars.values())}
    with _debug():
        compiled = compile(built.graph, losses, given=given, carry=carries, backend="reference")
        case.check_plan(compiled)
        for _ in range(3):
            written = {one: value for one, value in state.items() if one not in given and _has_memory(compiled, one)}
            got = compiled(written, *losses)
            want = interpret(built.graph, [*losses, *carries], state)
            state.update(zip(carries.values(), want[len(losses) :], strict=True))
            for one, true in zip([*got, *(given[old].numpy() for old in carries.values())], want, strict=True):
                if one.tobytes() != true.tobytes() and not _same_but_for_nan(one, true):
                    raise Fault(f"carried: {_first(one, true)}")


def check_streams(case: Case, numbers: random.Random) -> None:
    """Commands side by side on several streams give the same bits."""
    with _debug(numbers.random() < 0.5):
        for got in run_compiled(case, case.fresh(), runs=2, streams=numbers.randint(2, 4)):
            case.require_bits(got, "streams")


def check_limited(case: Case, numbers: random.Random) -> None:
    """Within a limit of memory the values have the same bits; a limit that cannot be met is told."""
    built = case.fresh()
    whole = compile(built.graph, built.wanted, backend="reference")
    limit = int(whole.memory().arena * numbers.uniform(0.5, 1.0))
    try:
        (got,) = run_compiled(case, built, limit=limit)
    except MemoryLimitError:
        return
    case.outcomes.add("limit met")
    case.require_bits(got, "limited")


def check_llvm(case: Case, numbers: random.Random) -> None:
    """The LLVM backend agrees, as built or after passes, and gives the same bits with two workers."""
    built, before = case.fresh(), SETTINGS.threads
    if numbers.random() < 0.5:
        simplify(built.graph, built.wanted, numbers.choices([each for each in Pass if each not in COARSE], k=3))
    found = []
    try:
        for SETTINGS.threads in (1, 2):
            found.extend(run_compiled(case, built, backend="llvm", bound=True))
    finally:
        SETTINGS.threads = before
    case.require_close(found[0], "llvm")
    for one, other in zip(*found, strict=True):
        if one.tobytes() != other.tobytes():
            raise Fault(f"llvm: other bits with two workers: {_first(other, one)}")


CHECKS: Mapping[str, Callable[[Case, random.Random], None]] = {
    "compiled": check_compiled,
    "one pass": check_one_pass,
    "some passes": check_some_passes,
    "all passes": check_all_passes,
    "texts": check_texts,
    "unrolled": check_unrolled,
    "derivatives": check_derivatives,
    "carried": check_carried,
    "streams": check_streams,
    "limited": check_limited,
    "llvm": check_llvm,
}
