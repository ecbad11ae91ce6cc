"""What loops and branches are: attributes that hold bodies, and the specs that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.concrete import CountBelow
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.graph import Registry
from nnc.ops.rules import Specs
from nnc.symbolic.ir import Body, SymbolicGraph
from nnc.symbolic.records import TensorKey

# Not the default one: a tool that goes through all operators could make nothing of these without bodies.
CONTROL_REGISTRY = Registry("control")


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """Go on while the single element of the body's `symbol` is not zero."""

    symbol: TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class PythonCondition:
    """Go on while `function` of the tensors of the body's `inputs` is true."""

    function: Callable[..., object]
    inputs: tuple[TensorKey, ...]


Test: TypeAlias = CountBelow | Holds | PythonCondition


@dataclass(frozen=True, slots=True)
class Kept:
    """What a loop gives back of the body's `symbol`: its value at the failed test, or a row per whole iteration."""

    symbol: TensorKey
    rows: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class WhileAttrs:
    """`body`'s first `carried` parameters get its results of the iteration before; the others never change.

    `count` is the body's symbol of the loop count, i64[]: the number of whole iterations so far. Outputs are the count
    at the failed test and one for each of `kept`; rows are `limit` many, those that no iteration wrote are zero.
    """

    body: Body
    carried: int
    count: TensorKey
    test: Test
    at_most: int | None = None
    kept: tuple[Kept, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.carried == len(self.body.results) <= len(self.body.parameters):
            got = f"{self.carried} carried values, a body with {len(self.body.results)} results"
            raise AttributeValueError("while", got=got, need="as many, and at least one")

    @property
    def limit(self) -> int | None:
        """The largest number of whole iterations, None when nobody knows."""
        return max(self.test.limit, 0) if isinstance(self.test, CountBelow) else self.at_most

    def asked(self) -> tuple[TensorKey, ...]:
        """The body's symbols that the test reads."""
        match self.test:
            case CountBelow():
                return ()
            case Holds():
                return (self.test.symbol,)
            case PythonCondition():
                return self.test.inputs

    def named(self) -> tuple[TensorKey, ...]:
        """All symbols of the body that stand here beside its parameters and results."""
        return (self.count, *self.asked(), *(kept.symbol for kept in self.kept))

    def exits(self) -> tuple[TensorKey, ...]:
        """The body's symbols whose values at the failed test are outputs."""
        return tuple(kept.symbol for kept in self.kept if not kept.rows)

    def stacked(self) -> tuple[TensorKey, ...]:
        """The body's symbols whose values in all iterations are outputs."""
        return tuple(kept.symbol for kept in self.kept if kept.rows)


@dataclass(frozen=True, slots=True, eq=False)
class CaseAttrs:
    """The branch that the first input names (or `function` of the first `chosen` inputs); `otherwise` for others."""

    branches: tuple[Body, ...]
    otherwise: Body | None = None
    function: Callable[..., int] | None = None
    chosen: int = 1

    def __post_init__(self) -> None:
        if not self.branches or self.chosen < 1:
            raise AttributeValueError("case..of", got="no branch, or no input to choose by", need="both")

    def bodies(self) -> tuple[tuple[str, Body], ...]:
        """All branches, with names."""
        named = tuple((f"case {index}", body) for index, body in enumerate(self.branches))
        return named if self.otherwise is None else (*named, ("otherwise", self.otherwise))


def infer_while(attrs: WhileAttrs, specs: Specs) -> Specs:
    """The count, then each of what is kept; ShapeError unless inputs, parameters and results fit."""
    body = attrs.body
    _check_specs("while", specs, _specs(body.graph, body.parameters))
    _check_specs("while", _specs(body.graph, body.results), specs[: attrs.carried])
    return (TensorSpec((), I64), *(result_spec(attrs, kept) for kept in attrs.kept))


def result_spec(attrs: WhileAttrs, kept: Kept) -> TensorSpec:
    """That of the symbol, or of `limit` rows of it."""
    spec = attrs.body.graph.tensors[kept.symbol].spec
    return replace(spec, shape=(attrs.limit or 0, *spec.shape)) if kept.rows else spec


def infer_case(attrs: CaseAttrs, specs: Specs) -> Specs:
    """What each branch gives; ShapeError unless all take the operands and give the same."""
    (_, first), *others = attrs.bodies()
    for body in (first, *(body for _, body in others)):
        _check_specs("case..of", specs[attrs.chosen :], _specs(body.graph, body.parameters))
        _check_specs("case..of", _specs(body.graph, body.results), _specs(first.graph, first.results))
    return _specs(first.graph, first.results)


def _specs(graph: SymbolicGraph, keys: Sequence[TensorKey]) -> Specs:
    return tuple(graph.tensors[key].spec for key in keys)


def _check_specs(subject: str, got: Specs, need: Specs) -> None:
    if len(got) != len(need) or not all(map(TensorSpec.fits, got, need)):
        raise ShapeError(subject, got=", ".join(map(str, got)), need=", ".join(map(str, need)) or "nothing")
