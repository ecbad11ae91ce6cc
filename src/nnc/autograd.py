"""PyTorch's `torch.autograd` and JAX's `custom_vjp`: gradients of what was recorded, and functions with their own.

    (slope,) = autograd.grad(y, x, create_graph=True)                      d y / d x of values that were computed
    class Rounded(autograd.Function): …; y = Rounded.apply(x)              `backward` says the gradient
    f = custom_vjp(f); f.defvjp(forward, backward)                         the same as JAX writes it

A function with a gradient of its own is one node of the record. Its forward function runs again for the gradient, so it
keeps no memory; what it draws by `nnc.random` is drawn as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Positive, Rate, checked, shown
from nnc.core.precautions.named_functions import HoldsFunctions, is_named
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import enable_grad as enable_grad
from nnc.dynamic.eager import inference_mode as inference_mode
from nnc.dynamic.eager import no_grad as no_grad
from nnc.dynamic.eager import set_grad_enabled as set_grad_enabled
from nnc.dynamic.eager import tensor
from nnc.dynamic.graph import DynamicGraph
from nnc.dynamic.traced import active_trace, is_array
from nnc.dynamic.transforms.batched import active_levels, operand_of
from nnc.dynamic.transforms.leaves import ArrayPlaces
from nnc.dynamic.transforms.own_gradients import with_own_gradient
from nnc.dynamic.transforms.randomness import drawing_from, reserved_counters
from nnc.dynamic.transforms.recomputation import FunctionCall
from nnc.dynamic.tree import Structure, Tree, TreeNode, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ShapeError, UsageError
from nnc.ops.movement.fill import fill_like

__all__ = [
    "GradientContext", "Function", "custom_vjp", "enable_grad", "grad", "gradcheck", "inference_mode", "no_grad",
    "set_grad_enabled",
]  # fmt: skip

Values = Sequence[Variable]


def grad(
    outputs: Tree,
    inputs: Tree,
    grad_outputs: Tree = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
) -> tuple[Variable, ...]:
    """Σ_k g_kᵀ ∂y_k / ∂x for each input x, of values that were recorded; zeros where no output depends on it.

    `grad_outputs` are the g_k, which scalars need none of. With `create_graph` the results are recorded too. A record
    lives as long as its values, so `retain_graph`, `only_inputs` and `allow_unused` change nothing.

    >>> x = nnc.variable(3.0)
    >>> (slope,) = nnc.autograd.grad(x**3, x, create_graph=True)
    >>> nnc.autograd.grad(slope, x)[0].item()
    18.0
    """
    _refuse_transformed("autograd.grad", "nnc.grad(f)(x)")
    ys, xs = _sequence(outputs), _sequence(inputs)
    odd = [each for each in (*ys, *xs) if not isinstance(each, Variable)]
    if odd:
        raise ArgumentError("autograd.grad", got=shown(odd[0]), need="variables", origin=caller_origin())
    seeds = _sequence(grad_outputs) if grad_outputs is not None else [None] * len(ys)
    if not ys or len(seeds) != len(ys):
        got, need = f"{len(seeds)} of {len(ys)} outputs", "one gradient for each of one or more outputs"
        raise ArgumentError("autograd.grad", got=got, need=need, origin=caller_origin())
    graph = cast("DynamicGraph", ys[0].graph)
    with graph.recorded():
        products = [_product(output, seed) for output, seed in zip(ys, seeds, strict=True)]
    return graph.backward(products, xs, create_graph=create_graph, constant=not create_graph)


@checked
def gradcheck(
    func: Callable[..., Any],
    inputs: Tree,
    eps: Positive = 1e-6,
    atol: Rate = 1e-5,
    rtol: Rate = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether gradients of a function are its slopes by central differences, (f(x + eps) - f(x - eps)) / (2 eps).

    Of the inputs that are variables, in f64 for differences this small. Where they are not, UsageError names the input,
    or False is given without `raise_exception`.

    >>> nnc.autograd.gradcheck(nnc.sin, nnc.variable(np.float64([0.0, 1.0])))
    True
    """
    xs = _sequence(inputs)
    odd = [x for x in xs if not isinstance(x, ArrayOperand | np.ndarray | np.generic | int | float | None)]
    if odd:
        need = "variables, arrays and numbers"
        raise ArgumentError("gradcheck", got=f"inputs of {shown(odd[0])}", need=need, origin=caller_origin())
    for place, x in enumerate(xs):
        if not isinstance(x, Variable) or not x.requires_grad:
            continue
        weights = [np.random.default_rng(0).uniform(0.5, 1.5, y.shape) for y in _outputs(func(*xs))]
        slope = grad(_weighted(func(*xs), weights), x)[0].numpy()
        steps = np.zeros_like(slope)
        for index in np.ndindex(x.shape):
            ahead, behind = (
                _weighted(func(*xs[:place], _moved(x, index, move), *xs[place + 1 :]), weights).item()
                for move in (eps, -eps)
            )
            steps[index] = (ahead - behind) / (2 * eps)
        if not np.allclose(slope, steps, rtol=rtol, atol=atol):
            if not raise_exception:
                return False
            got = f"a gradient by input {place} that is up to {np.abs(slope - steps).max():.1e} off"
            raise UsageError("gradcheck", got=got, need="the slope of its values", origin=caller_origin())
    return True


def _weighted(values: Tree, weights: Sequence[NDArray[np.float64]]) -> Variable:
    """The sum of all elements of all values, each times its weight."""
    products = [(value * weight).sum() for value, weight in zip(_outputs(values), weights, strict=True)]
    return cast("Variable", sum(products[1:], products[0]))


def _outputs(values: Tree) -> list[ArrayOperand]:
    """What a function gives; ArgumentError for what is no array."""
    outputs = _sequence(values)
    odd = [value for value in outputs if not isinstance(value, ArrayOperand)]
    if odd or not outputs:
        got = f"a function that gives {shown(odd[0]) if odd else 'nothing'}"
        raise ArgumentError("gradcheck", got=got, need="arrays that come of its inputs", origin=caller_origin())
    return outputs


def _moved(x: Variable, index: tuple[int, ...], move: float) -> Variable:
    """x with another element there."""
    values = np.array(x.numpy())
    values[index] += move
    return tensor(values)


def _sequence(value: Tree) -> list[Any]:
    if isinstance(value, TreeNode):
        return flatten(value)[0]
    return list(value) if isinstance(value, Iterable) and not isinstance(value, ArrayOperand | np.ndarray) else [value]


def _product(output: Variable, seed: Tree) -> Variable:
    if seed is None:
        if output.spec.elements != 1:
            fix = "grad_outputs=nnc.ones_like(y), or sum() it"
            raise ShapeError("autograd.grad", got=str(output.spec), need="a scalar", fix=fix, origin=caller_origin())
        return output.sum() if output.ndim else output
    given = operand_of(seed)
    if given.shape != output.shape:
        raise ShapeError("autograd.grad", got=str(given.spec), need=str(output.spec), origin=caller_origin())
    return (output * given).sum()


def _refuse_transformed(subject: str, fix: str) -> None:
    if active_trace() is not None or active_levels():
        got = "a function that is compiled or mapped"
        raise UsageError(subject, got=got, need="eager values", fix=fix, origin=caller_origin())


# ---- functions with gradients of their own


class GradientContext:
    """What the forward function of a `Function` leaves for its gradient, in attributes and by `save_for_backward`.

    >>> context = nnc.autograd.GradientContext()
    >>> context.save_for_backward(nnc.ones(2), None)
    >>> len(context.saved_tensors)
    2
    """

    saved_tensors: tuple[Any, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:  # noqa: ANN401  # arrays or None
        """They are `saved_tensors` then."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:  # noqa: ANN401  # arrays
        """Nothing is to be done: outputs of integers and truth values have no gradient."""

    def set_materialize_grads(self, value: bool) -> None:
        """Nothing is to be done: gradients that there are none of come as zeros."""


class Function:
    """y = forward(ctx, *args), dL/dargs = backward(ctx, *dL/dy): subclass it, and call `apply`.

    >>> class Doubled(nnc.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         return grad_output * 10
    >>> nnc.grad(lambda x: Doubled.apply(x))(1.0).item()
    10.0

    `setup_context(ctx, inputs, output)` may fill the context instead, with `forward(*args)`. In functions that are
    compiled or mapped the gradient is a part of their program; random numbers are drawn anew for it there.
    """

    @staticmethod
    def forward(*args: Any) -> Any:  # noqa: ANN401  # arrays and what else it takes
        """The value; a subclass says it."""
        raise UsageError("autograd.Function", got="no forward", need="forward(ctx, …)", origin=caller_origin())

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:  # noqa: ANN401  # arrays and None
        """The gradients of the arguments, None for what is no array; a subclass says it."""
        raise UsageError("autograd.Function", got="no backward", need="backward(ctx, …)", origin=caller_origin())

    @classmethod
    def apply(cls, *args: Any) -> Any:  # noqa: ANN401  # as above
        """The value, whose gradient is that of `backward`."""

        def forward(context: GradientContext, given: Sequence[Any]) -> Tree:
            prepare = getattr(cls, "setup_context", None)
            if prepare is None:
                return cls.forward(context, *given)
            result = cls.forward(*given)
            prepare(context, tuple(given), result)
            return result

        def backward(context: GradientContext, seeds: Sequence[Any]) -> Sequence[Any]:
            slopes = cls.backward(context, *seeds)
            given = list(slopes) if isinstance(slopes, tuple | list) else [slopes]
            # None for arguments that were left out, as PyTorch has it.
            while len(given) > len(args) and given[-1] is None:
                given.pop()
            return given

        return _with_gradient(f"{cls.__name__}.apply", args, forward, backward)


# Those whose forward functions are running.
_FORWARD: ContextVar[tuple[object, ...]] = ContextVar("forward", default=())


class custom_vjp(HoldsFunctions):  # noqa: N801  # JAX's name, of a decorator
    """A function whose gradient `defvjp` says: f.defvjp(forward, backward), as in JAX.

    `forward(*args)` gives the value and what is kept, `backward(kept, slope of the value)` one gradient an argument.

    >>> f = nnc.custom_vjp(lambda x: x * 2)
    >>> f.defvjp(lambda x: (x * 2, ()), lambda kept, slope: (slope * 10,))
    >>> nnc.grad(f)(1.0).item()
    10.0
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        if not callable(fun):
            raise ArgumentError("custom_vjp", got=f"fun={shown(fun)}", need="a function", origin=caller_origin())
        if not isinstance(nondiff_argnums, Sequence) or not all(type(place) is int for place in nondiff_argnums):
            got = f"nondiff_argnums={shown(nondiff_argnums)}"
            raise ArgumentError("custom_vjp", got=got, need="places of arguments, integers", origin=caller_origin())
        update_wrapper(cast("Any", self), fun)
        self.fun, self.static = fun, tuple(nondiff_argnums)
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        return str(getattr(self, "__qualname__", "")) if is_named(self) else super().__reduce_ex__(protocol)

    @checked
    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the two functions of the gradient."""
        self._rules = fwd, bwd

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401  # what the function takes
        """The function's value."""
        if self._rules is None:
            need, fix = "a gradient", "f.defvjp(forward, backward) before"
            raise UsageError("custom_vjp", got="none", need=need, fix=fix, origin=caller_origin())
        fwd, bwd = self._rules
        static = [args[place] for place in self.static]
        if self in _FORWARD.get():
            # As in JAX: what the forward function calls is the function itself.
            return self.fun(*args)

        def forward(context: GradientContext, given: Sequence[Any]) -> Tree:
            token = _FORWARD.set((*_FORWARD.get(), self))
            try:
                made = fwd(*given)
            finally:
                _FORWARD.reset(token)
            if not isinstance(made, tuple | list) or len(made) != 2:
                need = "(value, what is kept) of the forward function"
                raise ArgumentError("custom_vjp", got=shown(made), need=need, origin=caller_origin())
            value, context.saved_tensors = made
            context.structure = flatten(value)[1]  # type: ignore[attr-defined]  # an attribute of this use
            return value

        def backward(context: GradientContext, seeds: Sequence[Any]) -> Sequence[Any]:
            slope = context.structure.unflatten(seeds)  # type: ignore[attr-defined]  # as above
            slopes, count = bwd(*static, context.saved_tensors, slope), len(args) - len(static)
            if not isinstance(slopes, tuple | list) or len(slopes) != count:
                got = f"{len(slopes)} gradients" if isinstance(slopes, tuple | list) else shown(slopes)
                need = f"a tuple of {count}, one for each argument, or None"
                raise ArgumentError("custom_vjp", got=got, need=need, origin=caller_origin())
            following = iter(slopes)
            return [None if place in self.static else next(following) for place in range(len(args))]

        return _with_gradient(getattr(self, "__name__", "custom_vjp"), args, forward, backward)


def _with_gradient(
    subject: str,
    args: Sequence[Any],
    forward: Callable[[GradientContext, Sequence[Any]], Tree],
    backward: Callable[[GradientContext, Sequence[Any]], Sequence[Any]],
) -> Tree:
    leaves, structure = flatten(tuple(args))
    if active_trace() is not None or active_levels():
        return _in_graph(subject, leaves, structure, forward, backward)
    recorded = [leaf for leaf in leaves if isinstance(leaf, Variable) and leaf.place is not None]
    if not recorded or not recorded[0].graph.recording:
        return forward(GradientContext(), args)
    graph = cast("DynamicGraph", recorded[0].graph)
    rest = ArrayPlaces(leaves, structure)
    counter = int(reserved_counters(1))
    needs = tuple(any(leaf.place is not None for leaf in _variables(arg)) for arg in args)

    def run(values: Values) -> tuple[GradientContext, Sequence[Any], Tree]:
        context, arguments = GradientContext(), rest.filled(values)
        context.needs_input_grad = needs
        with drawing_from(counter):
            return context, arguments, forward(context, arguments)

    def slopes(values: Values, seeds: Values) -> list[Any]:
        context, arguments, result = run(values)
        floats, rows = iter(seeds), [leaf for leaf in flatten(result)[0] if is_array(leaf)]
        given = [next(floats) if operand_of(row).dtype.is_float else fill_like(operand_of(row), 0) for row in rows]
        aligned = _aligned(subject, arguments, backward(context, given))
        return [aligned[place] for place in rest.places]

    given = [leaves[place] for place in rest.places]
    inputs = [leaf if isinstance(leaf, Variable) else graph.constant(leaf) for leaf in given]
    call = _OwnGradient(graph, lambda values: _arrays(run(values)[2]), slopes, subject, inputs)
    with graph.apart():
        outputs, shape = flatten(run([operand.detach() for operand in inputs])[2])
    results = iter(call.recorded(inputs, _arrays(outputs)))
    return shape.unflatten([next(results) if is_array(output) else output for output in outputs])


def _in_graph(
    subject: str,
    leaves: Sequence[Any],
    structure: Structure,
    forward: Callable[[GradientContext, Sequence[Any]], Tree],
    backward: Callable[[GradientContext, Sequence[Any]], Sequence[Any]],
) -> Tree:
    """The same in a function that is compiled or mapped: the gradient is part of its graph."""
    rest = ArrayPlaces(leaves, structure)
    operands = [operand_of(leaves[place]) for place in rest.places]

    def run(values: Sequence[Any]) -> tuple[GradientContext, Sequence[Any], list[Any], Structure]:
        context, arguments = GradientContext(), rest.filled(values)
        context.needs_input_grad = tuple(any(map(is_array, flatten(argument)[0])) for argument in arguments)
        return context, arguments, *flatten(forward(context, arguments))

    _, _, outputs, shape = run(operands)
    results = [operand_of(output) for output in outputs if is_array(output)]
    real = [result for result in results if result.dtype.is_continuous]
    if not operands or not real:
        return shape.unflatten(outputs)

    def slopes(values: Sequence[Any], seeds: Sequence[Any]) -> Sequence[Any]:
        context, arguments, again, _ = run(values)
        following, rows = iter(seeds), [operand_of(row) for row in again if is_array(row)]
        given = [next(following) if row.dtype.is_continuous else fill_like(row, 0) for row in rows]
        aligned = _aligned(subject, arguments, backward(context, given))
        pairs = [(aligned[place], value) for place, value in zip(rest.places, values, strict=True)]
        return [_fitting(subject, slope, value) if value.dtype.is_continuous else None for slope, value in pairs]

    handed = iter(with_own_gradient(real, operands, slopes))
    plain = iter([next(handed) if result.dtype.is_continuous else result for result in results])
    return shape.unflatten([next(plain) if is_array(output) else output for output in outputs])


def _fitting(subject: str, slope: Tree, value: ArrayOperand) -> ArrayOperand:
    """A gradient of the value's shape and type; zeros for None."""
    made = fill_like(value, 0.0) if slope is None else operand_of(slope)
    if made.shape != value.shape:
        raise ShapeError(subject, got=f"a gradient {made.spec}", need=str(value.spec))
    return made.astype(value.dtype)


def _variables(argument: Tree) -> list[Variable]:
    return [leaf for leaf in flatten(argument)[0] if isinstance(leaf, Variable)]


def _arrays(values: Tree) -> list[Variable]:
    return [cast("Variable", operand_of(leaf)) for leaf in flatten(values)[0] if is_array(leaf)]


def _aligned(subject: str, arguments: Sequence[Any], slopes: Sequence[Any]) -> list[Any]:
    """A gradient, or None, for each leaf of the arguments."""
    if len(slopes) != len(arguments):
        got, need = f"{len(slopes)} gradients", f"one for each of {len(arguments)} arguments, or None"
        raise ArgumentError(subject, got=got, need=need, origin=caller_origin())
    aligned: list[Any] = []
    for argument, slope in zip(arguments, slopes, strict=True):
        count, given = len(flatten(argument)[0]), flatten(slope)[0]
        if slope is not None and len(given) != count:
            got, need = f"{len(given)} gradients of an argument", f"{count}, as it has arrays"
            raise ArgumentError(subject, got=got, need=need, origin=caller_origin())
        aligned += [None] * count if slope is None else given
    return aligned


class _OwnGradient(FunctionCall):
    """A function of eager values as a node, whose gradient another function gives."""

    def __init__(
        self,
        graph: DynamicGraph,
        function: Callable[[Values], Values],
        slopes: Callable[[Values, Values], list[Any]],
        subject: str,
        inputs: Values,
    ) -> None:
        super().__init__(graph, function, tuple(operand.spec for operand in inputs))
        self.slopes, self.subject = slopes, subject
        self._own: dict[tuple[int, ...], FunctionCall] = {}

    def pullback(self, wanted: tuple[int, ...]) -> FunctionCall:
        """The gradient that the function has: itself a function of values, which has a gradient by its record."""
        known = self._own.get(wanted)
        if known is None:
            specs = (*self.inputs, *(spec for spec in self.specs if spec.dtype.is_float))
            known = FunctionCall(self.graph, lambda values: self._of(values, wanted), specs)
            self._own[wanted] = known.with_outputs(tuple(self.inputs[place] for place in wanted))
        return known

    def _of(self, values: Values, wanted: tuple[int, ...]) -> Values:
        given = self.slopes(values[: self.own], values[self.own :])
        return [cast("Variable", _fitting(self.subject, given[place], values[place])) for place in wanted]
