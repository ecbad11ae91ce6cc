"""PyTorch's `torch.func`: derivatives and mapping of functions, and modules as functions of their parameters.

params = dict(net.named_parameters())
slopes = nnc.func.grad(lambda p, x, y: loss(nnc.func.functional_call(net, p, (x,)), y))(params, x, y)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from nnc.arguments import explained, shown
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.state import stand_ins
from nnc.dynamic.transforms.batched import vmap
from nnc.dynamic.transforms.differentiation import grad as _grad
from nnc.dynamic.transforms.differentiation import hessian, jvp, value_and_grad
from nnc.dynamic.transforms.jacobians import jacfwd, jacrev
from nnc.dynamic.transforms.pullback import vjp
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.state.layer_state import LayerState
from nnc.numerics import stack
from nnc.numerics.conversion import as_array

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "stack_module_state", "vjp",
    "vmap",
]  # fmt: skip


def grad(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the gradient of the scalar `func`; with `has_aux` (gradient, aux).

    >>> nnc.func.grad(lambda x: (x * x).sum())(nnc.tensor(3.0)).item()
    6.0
    """
    return _grad(func, argnums, has_aux=has_aux)


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As `nnc.value_and_grad`, the gradient first: (gradient, value), with `has_aux` (gradient, (value, aux)).

    >>> [x.item() for x in nnc.func.grad_and_value(lambda x: x * x)(nnc.tensor(3.0))]
    [6.0, 9.0]
    """
    both = value_and_grad(func, argnums, has_aux=has_aux)

    @wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # what the function takes
        value, gradients = both(*args, **kwargs)
        return gradients, value

    return differentiated


@explained
def functional_call(
    module: LayerState,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,  # noqa: ANN401  # what the module takes
    kwargs: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401  # what the module gives
    """What the module gives with these tensors in place of its own, by path; those that are not named are its own.

    >>> net = nn.Linear(2, 1)
    >>> zeros = {"weight": nnc.zeros((1, 2)), "bias": nnc.ones(1)}
    >>> nnc.func.functional_call(net, zeros, (nnc.ones((1, 2)),)).tolist()
    [[1.0]]
    """
    given = parameter_and_buffer_dicts
    rows = [given] if isinstance(given, Mapping) else list(given)
    own = dict([*module.named_parameters(), *module.named_buffers()])
    pairs = []
    for path, value in ((path, value) for row in rows for path, value in row.items()):
        if path not in own:
            need = ", ".join(own) or "no tensors: call the layer once before"
            raise ArgumentError("functional_call", got=shown(path), need=need, origin=caller_origin())
        pairs.append((own[path], as_array(value)))
        if pairs[-1][1].shape != own[path].shape:
            got, need = f"{path} of {pairs[-1][1].spec}", str(own[path].spec)
            fix = "w.T: nn.Linear has weight[out, in] as PyTorch, nn.Dense weight[in, out]"
            raise ShapeError("functional_call", got=got, need=need, fix=fix, origin=caller_origin())
    positional = args if isinstance(args, tuple) else () if args is None else (args,)
    with stand_ins(pairs):
        return module(*positional, **(kwargs or {}))  # type: ignore[operator]  # layers are called


@explained
def stack_module_state(models: Sequence[LayerState]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of several modules alike, each stacked on a new first axis, by path.

    >>> params, buffers = nnc.func.stack_module_state([nn.Linear(2, 1), nn.Linear(2, 1)])
    >>> params["weight"].shape
    (2, 1, 2)
    """
    groups = [[dict(rows) for rows in (model.named_parameters(), model.named_buffers())] for model in models]
    if not groups:
        raise ArgumentError("stack_module_state", got="no models", need="one or more", origin=caller_origin())
    first = groups[0]
    for other in groups:
        if [list(part) for part in other] != [list(part) for part in first]:
            got, need = "models of other tensors", ", ".join(first[0])
            raise ArgumentError("stack_module_state", got=got, need=need, origin=caller_origin())
    stacked = [{path: stack([group[part][path] for group in groups]) for path in first[part]} for part in (0, 1)]
    return stacked[0], stacked[1]
