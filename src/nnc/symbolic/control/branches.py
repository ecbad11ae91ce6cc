"""`case..of`: the command, how one is built, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import Command
from nnc.errors import ArityError
from nnc.ops.elementwise.pointwise import add, affine, cast, equal
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.rules import MIXED_DEVICES, Applied, Gradients, operator
from nnc.symbolic.control.commands import CONTROL_REGISTRY, CaseAttrs, infer_case
from nnc.symbolic.control.parts import as_symbol, pull_back_body, results_of_their_own, whole_of
from nnc.symbolic.ir import BODIES, Body, Symbol, SymbolicGraph

Branch = Callable[..., Symbol | tuple[Symbol, ...]]
Choice = tuple[Callable[..., int], Sequence[Symbol]]


@checked
def case_of(
    graph: SymbolicGraph,
    choice: Symbol | Choice,
    branches: Sequence[Branch] | Mapping[int, Branch],
    operands: Sequence[Symbol] = (),
    *,
    bypass: Sequence[Symbol] | None = None,
    name: str = "",
) -> tuple[Symbol, ...]:
    """What branch number `choice` gives for the operands, or `bypass` when there is no such branch.

    Branches are numbered from 0, or have the numbers that are the keys of a mapping. `name` is that of the exec.

    `choice` is a symbol of one integer, or a function with the symbols whose tensors it gets; a gradient calls the
    function again. Branches are functions of the operands' symbols; symbols of graphs around may be used in them.
    Without `bypass` a choice without a branch is an IndexRangeError of the run.
    """
    if isinstance(branches, Mapping):
        choice, branches = _position(choice, tuple(branches)), tuple(branches.values())
    function, asked = (None, (choice,)) if isinstance(choice, Symbol) else (choice[0], tuple(choice[1]))
    if not branches or not asked:
        raise ArityError("case..of", got="no branch, or no symbol to choose by", need="both", origin=caller_origin())
    built = [_build_branch(graph, branch, operands) for branch in branches]
    if bypass is not None:
        built.append(_build_branch(graph, lambda *_: tuple(bypass), operands))
    captured = tuple(dict.fromkeys(key for inner, _ in built for key in inner.captured))
    bodies = [_close_branch(inner, results, [graph.symbol(key) for key in captured]) for inner, results in built]
    count, otherwise = len(branches), None if bypass is None else bodies[-1]
    attrs = CaseAttrs(tuple(bodies[:count]), otherwise, function, len(asked))
    whole = [whole_of(graph.symbol(graph.own(symbol))) for symbol in asked]
    return graph.apply(Command(CASE_OF, attrs), [*whole, *(graph.symbol(key) for key in captured)], name=name)


def _position(choice: Symbol | Choice, numbers: tuple[int, ...]) -> Symbol | Choice:
    """The position of the chosen number; -1, which no branch has, for another one."""
    if isinstance(choice, Symbol):
        hits = (cast(equal(choice, scalar_like(choice, number)), choice.spec.dtype) for number in numbers)
        weighted = (affine(hit, place + 1) for place, hit in enumerate(hits))
        return reduce(add, weighted, fill_like(choice, -1))
    function, asked = choice
    places = {number: place for place, number in enumerate(numbers)}
    return (lambda *tensors: places.get(function(*tensors), -1)), asked


def _build_branch(
    graph: SymbolicGraph, branch: Callable[..., Symbol | tuple[Symbol, ...]], operands: Sequence[Symbol]
) -> tuple[SymbolicGraph, tuple[Symbol, ...]]:
    inner = SymbolicGraph(enclosing=graph)
    given = branch(*(inner.symbol(inner.own(symbol)) for symbol in operands))
    results = (given,) if isinstance(given, Symbol) else tuple(given)
    return inner, tuple(inner.symbol(inner.own(symbol)) for symbol in results)


def _close_branch(inner: SymbolicGraph, results: Sequence[Symbol], captured: Sequence[Symbol]) -> Body:
    """The branch with the parameters of all branches."""
    parameters = tuple(inner.own(symbol) for symbol in captured)
    inner.enclosing = None
    return Body(inner, parameters, results_of_their_own(inner, parameters, results))


# ---- the gradient


def _case_gradient(call: Applied[CaseAttrs], gradients: Gradients) -> Gradients:
    """The same choice again, of the gradients of the branches."""
    attrs = call.attrs
    inputs = tuple(as_symbol(operand) for operand in call.inputs)
    operands = inputs[attrs.chosen :]
    wanted = [place for place in range(len(operands)) if call.needed[attrs.chosen + place]]
    seeded = [place for place, gradient in enumerate(gradients) if gradient is not None]
    bodies = [_branch_gradient(body, wanted, seeded) for _, body in attrs.bodies()]
    count = len(attrs.branches)
    changed = replace(attrs, branches=tuple(bodies[:count]), otherwise=None if attrs.otherwise is None else bodies[-1])
    seeds = [whole_of(as_symbol(gradients[place])) for place in seeded]
    slopes = inputs[0].graph.apply(Command(CASE_OF, changed), [*inputs, *seeds])
    results: list[Symbol | None] = [None] * len(inputs)
    for place, symbol in zip(wanted, slopes, strict=True):
        results[attrs.chosen + place] = symbol
    return tuple(results)


def _branch_gradient(body: Body, wanted: Sequence[int], seeded: Sequence[int]) -> Body:
    """(operands…, seeds…) -> gradients of the wanted operands."""
    outputs, inputs = [body.results[place] for place in seeded], [body.parameters[place] for place in wanted]
    pullback = pull_back_body(body, outputs, inputs)
    graph = SymbolicGraph()
    given = {
        key: graph.input(pullback.graph.tensors[key].spec).key
        for key in (*(pullback.mapped[parameter] for parameter in body.parameters), *pullback.seeds)
    }
    parameters = tuple(given.values())
    return Body(graph, parameters, results_of_their_own(graph, parameters, pullback.into(graph, given)))


CASE_OF = operator(
    "case_of",
    CaseAttrs,
    (),
    infer=infer_case,
    gradient=_case_gradient,
    variadic=True,
    registry=CONTROL_REGISTRY,
    doc="y = branch[choice](x…)",
)
BODIES.set(CASE_OF, CaseAttrs.bodies)
MIXED_DEVICES.set(CASE_OF, True)
