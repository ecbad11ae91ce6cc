"""Variables that keep their identity while their values change, such as the parameters of a network.

w = variable(…)                  a leaf
current(w)                       w itself; in a function that is compiled an input, with the value of each call
assign(w, new)                   w has another value from now on; in a compiled function behind each call
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.graph import default_graph
from nnc.dynamic.traced import active_trace
from nnc.dynamic.variable import Variable
from nnc.errors import UsageError
from nnc.ops.movement.copy import stop_gradient


@runtime_checkable
class HasParameters(Protocol):
    """A layer or module, seen from below: what it can be differentiated by."""

    def trainable_parameters(self) -> dict[str, Variable]:
        """The leaves that are trained, by path."""
        ...


# What is told of a matrix that lies the other way.
TURNED = "w.T: nn.Linear has weight[out, in] as PyTorch, nn.Dense weight[in, out]"
# What is read in place of variables, by their identities.
_STAND_INS: ContextVar[Mapping[int, ArrayOperand] | None] = ContextVar("stand_ins", default=None)


@contextmanager
def stand_ins(pairs: Iterable[tuple[Variable, ArrayOperand]]) -> Iterator[None]:
    """Inside, who asks what these variables hold gets the other values, of any world."""
    known = _STAND_INS.get() or {}
    token = _STAND_INS.set({**known, **{id(variable): value for variable, value in pairs}})
    try:
        yield
    finally:
        _STAND_INS.reset(token)


def has_stand_ins() -> bool:
    """Whether other values are read in place of some variables here."""
    return _STAND_INS.get() is not None


def current(variable: Variable) -> ArrayOperand:
    """What the variable holds, in the world of the code that asks."""
    instead = _STAND_INS.get()
    if instead is not None and id(variable) in instead:
        return instead[id(variable)]
    trace = active_trace()
    return variable if trace is None else trace.held(variable)


def currents(variables: Mapping[str, Variable]) -> dict[str, ArrayOperand]:
    """What variables hold, by name."""
    trace = active_trace()
    return dict(variables) if trace is None else {name: trace.held(variable) for name, variable in variables.items()}


def shared_or_assigned(variable: Variable, new: ArrayOperand) -> Variable:
    """What stands for a parameter that is set to `new`: another leaf of its spec itself, which both places have then.

    Any other value is what the variable holds from now on.
    """
    if isinstance(new, Variable) and new.requires_grad and new.graph.is_leaf(new) and new.spec.fits(variable.spec):
        return new
    assign(variable, new)
    return variable


def assign(variable: Variable, new: ArrayOperand) -> None:
    """Let the variable hold another value of its shape and element type, on its device."""
    assign_all(((variable, new),))


def assign_all(pairs: Iterable[tuple[Variable, ArrayOperand]]) -> None:
    """The same for many variables."""
    trace = active_trace()
    settled: list[tuple[Variable, Tensor]] = []
    for variable, new in pairs:
        spec, own = new.spec, variable.spec
        if spec is not own and not spec.fits(own):
            turned = spec.shape == own.shape[::-1]
            fix = TURNED if turned else ""
            raise UsageError("assign", got=str(spec), need=str(own), fix=fix)
        if trace is not None:
            trace.renew(variable, new)
        elif isinstance(new, Variable):
            settled.append((variable, new.tensor))
        else:
            got = f"a value that vmap() maps, {spec}"
            raise UsageError("assign", got=got, need="an eager value", fix="renew it outside of vmap()")
    default_graph().settle(settled)


def constant_of(value: ArrayOperand) -> ArrayOperand:
    """The value, through which no gradient flows."""
    return value.detach() if isinstance(value, Variable) else stop_gradient(value)


def depends_on(owner: object, mode: Callable[[], Hashable]) -> None:
    """In a function that is compiled: the program is one for this mode; another mode makes another program."""
    trace = active_trace()
    if trace is not None:
        trace.modes[id(owner)] = mode


def parameter_over(value: ArrayLike | Tensor) -> Variable:
    """A leaf over this very memory, even in `no_grad`."""
    graph = default_graph()
    with graph.recorded():
        return graph.variable(value, share=True)
