"""What must hold of every program, as a table of checks; each that changes a graph builds its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType

import numpy as np
from tests.fuzz.graphs.case import Case, Fault, squared
from tests.fuzz.graphs.compare import coarseness, other_bits
from tests.fuzz.graphs.moved import check_moved
from tests.fuzz.graphs.plans import check_damaged, check_plans
from tests.symbolic.interpreter import Array, interpret
from tests.symbolic.programs import Built, build, values_for

from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16, F64, DType
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, MemoryLimitError, NotDifferentiableError, SymbolError
from nnc.ops.optimizer.optimizer import ADAM, SGD, AdamAttrs, SGDAttrs
from nnc.planning.solvers import local
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile, faults, jvp, minimize
from nnc.symbolic.compiler.order import shuffle, window
from nnc.symbolic.control import CaseAttrs, PythonCondition, WhileAttrs
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dump, parse

# Rewrites in these passes compute the same numbers by the same roundings.
EXACT = frozenset((Pass.COMMON_SUBEXPRESSIONS, Pass.DATA_TRANSFER, Pass.PRUNING, Pass.BRANCHES, Pass.INVARIANTS))
# These round more than the program says.
COARSE: Mapping[Pass, DType] = {Pass.BFLOAT16: BF16, Pass.FLOAT16: F16}
# How far campaigns let compile search for orders and plans: any will do, and the search would take most of the time.
SHORT: tuple[tuple[ModuleType, str, int], ...] = (
    (shuffle, "MOVES", 24),
    (window, "STATES", 60),
    (local, "PLACEMENTS", 1_000),
)


@contextmanager
def _debug(on: bool = True) -> Iterator[None]:
    before, SETTINGS.debug = SETTINGS.debug, on
    try:
        yield
    finally:
        SETTINGS.debug = before


@contextmanager
def short_search() -> Iterator[None]:
    """Compilations look for good orders and plans less long."""
    before = [getattr(module, name) for module, name, _ in SHORT]
    for module, name, number in SHORT:
        setattr(module, name, number)
    try:
        yield
    finally:
        for (module, name, _), number in zip(SHORT, before, strict=True):
            setattr(module, name, number)


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
    check_plans(compiled)
    case.outcomes.update(["streams"] if streams > 1 else [])
    case.outcomes.update(["in place"] if any(len(life.roots) > 1 for life in compiled.planned.lives.blocks()) else [])
    if limit is not None and compiled.memory().arena > limit:
        raise Fault(f"an arena of {compiled.memory().arena} bytes for a limit of {limit}")
    written = _read_from_outside(compiled, values, given)
    found = [list(compiled(written, *built.wanted)) for _ in range(runs)]
    for symbol, tensor in given.items():
        if tensor.numpy().tobytes() != values[symbol].tobytes():
            raise Fault(f"the bound input {symbol} was overwritten")
    return found


def _read_from_outside(
    compiled: Compiled, values: Mapping[Symbol, Array], given: Container[Symbol]
) -> dict[Symbol, Array]:
    """What is to be written before a run: values that have memory in the arena then."""
    found = {}
    for symbol, value in values.items():
        if symbol not in given:
            with suppress(SymbolError):
                compiled.write(symbol, value)
                found[symbol] = value
    return found


def check_planned(case: Case, numbers: random.Random) -> None:
    """The graph is verified, its plans have no faults, and a run whose freed memory is not-a-number has its bits."""
    runs, bound, streams = numbers.choice((1, 1, 1, 2)), numbers.random() < 0.5, numbers.choice((1, 1, 1, 2, 3))
    with _debug():
        for got in run_compiled(case, case.built, runs=runs, bound=bound, streams=streams):
            case.require_bits(got, "planned")


def check_compiled(case: Case, numbers: random.Random) -> None:
    """Planned is unplanned, twice over: freed memory is not-a-number, and the graph is verified."""
    with _debug(numbers.random() < 0.7):
        for got in run_compiled(case, case.fresh(), runs=2, bound=numbers.random() < 0.5):
            case.require_bits(got, "compiled")


def passed(case: Case, passes: Sequence[Pass]) -> tuple[Built, list[Array]]:
    """A graph behind the passes, each of which leaves a valid one, and its values without a plan.

    All passes together leave the values: bits, or within what their rounding allows.
    """
    built = case.fresh()
    coarse = max((COARSE.get(each, F64) for each in passes), key=coarseness)
    with _debug():
        simplify(built.graph, built.wanted, passes)
    got = interpret(built.graph, built.wanted, case.values(built))
    what = _names(passes)
    if EXACT.issuperset(passes):
        case.require_bits(got, what)
    else:
        case.require_close(got, what, coarse)
    return built, got


def check_passes(case: Case, passes: Sequence[Pass]) -> None:
    """The values behind the passes, planned and unplanned."""
    built, got = passed(case, passes)
    with _debug():
        (planned,) = run_compiled(case, built, bound=len(passes) % 2 == 0)
    for one, other in zip(planned, got, strict=True):
        if bad := other_bits(one, other):
            raise Fault(f"{_names(passes)}: planned and unplanned differ: {bad}")


def _names(passes: Sequence[Pass]) -> str:
    return ", ".join(each.name for each in passes)


def check_one_pass(case: Case, numbers: random.Random) -> None:
    """One pass alone."""
    check_passes(case, [numbers.choice(list(Pass))])


def check_some_passes(case: Case, numbers: random.Random) -> None:
    """Passes in any order, some of them twice."""
    check_passes(case, numbers.choices(list(Pass), k=numbers.randint(2, 6)))


def check_all_passes(case: Case, numbers: random.Random) -> None:
    """All passes, one after another; seldom with those that round to 16 bits."""
    order = [each for each in Pass if each not in COARSE or numbers.random() < 0.1]
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
            if isinstance(attrs, WhileAttrs) and isinstance(attrs.test, PythonCondition):
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
    losses = [squared(symbol) for symbol in built.wanted if symbol.spec.dtype.is_float]
    parameters = [symbol for symbol in built.inputs if symbol.spec.dtype.is_float]
    if not losses or not parameters or len({symbol.spec.dtype for symbol in losses}) > 1:
        return
    optimizer = Command(SGD, SGDAttrs(0.5)) if numbers.random() < 0.5 else Command(ADAM, AdamAttrs())
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
        check_plans(compiled)
        for _ in range(3):
            got = compiled(_read_from_outside(compiled, state, given), *losses)
            want = interpret(built.graph, [*losses, *carries], state)
            state.update(zip(carries.values(), want[len(losses) :], strict=True))
            for one, true in zip([*got, *(given[old].numpy() for old in carries.values())], want, strict=True):
                if bad := other_bits(one, true):
                    raise Fault(f"carried: {bad}")


def check_streams(case: Case, numbers: random.Random) -> None:
    """Commands side by side on several streams give the same bits."""
    with _debug(numbers.random() < 0.5):
        for got in run_compiled(case, case.fresh(), runs=2, streams=numbers.randint(2, 4)):
            case.require_bits(got, "streams")


def check_limited(case: Case, numbers: random.Random) -> None:
    """Within a limit of memory the values have the same bits; where one cannot be met, the smallest named can."""
    built, streams = case.fresh(), numbers.choice((1, 1, 2))
    whole = compile(built.graph, built.wanted, backend="reference", streams=streams)
    limit = int(whole.memory().arena * numbers.uniform(0.6, 1.0))
    with _debug(numbers.random() < 0.5):
        try:
            (got,) = run_compiled(case, built, limit=limit, streams=streams)
        except MemoryLimitError as error:
            case.outcomes.add("limit refused")
            (got,) = run_compiled(case, built, limit=error.smallest, streams=streams)
    case.outcomes.add("limit met")
    case.require_bits(got, "limited")


def check_llvm(case: Case, numbers: random.Random) -> None:
    """The LLVM backend agrees, as built or after passes, and gives the same bits with two workers, where asked."""
    built, before = case.fresh(), SETTINGS.threads
    if numbers.random() < 0.5:
        simplify(built.graph, built.wanted, numbers.choices([each for each in Pass if each not in COARSE], k=3))
    found = []
    try:
        for SETTINGS.threads in numbers.choice(((1,), (1,), (1, 2))):
            found.extend(run_compiled(case, built, backend="llvm", bound=True))
    finally:
        SETTINGS.threads = before
    case.require_close(found[0], "llvm")
    for one, other in zip(found[0], found[-1], strict=True):
        if bad := other_bits(other, one):
            raise Fault(f"llvm: other bits with two workers: {bad}")


CHECKS: Mapping[str, Callable[[Case, random.Random], None]] = {
    "planned": check_planned,
    "damaged": check_damaged,
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
    "moved": check_moved,
    "llvm": check_llvm,
}
