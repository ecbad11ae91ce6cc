"""Gradient-based optimization: the backward execs, then one optimizer command per parameter.

g = gradient of the losses by w;  g' = clip(g);  w', state' = optimizer(g', w, state, rate, step)

clip_value c:  g' = min(max(g, -c), c)
clip_norm c:   g' = g · min(1, c / |g|), |g| the 2-norm over the gradients of all parameters (Pascanu et al. 2013)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TypeAlias

from nnc.arguments import checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import F32, F64, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import ArityError, AttributeValueError
from nnc.ops.composed.compose import sum_of
from nnc.ops.elementwise.pointwise import affine, cast, clamp, divide, minimum, multiply, sqrt, square
from nnc.ops.movement.broadcast import reduce_sum
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.optimizer.update import row_of
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorSymbol
from nnc.symbolic.scopes import opened_scopes, reopened

# The norm of gradients, of an element type.
Norm: TypeAlias = Callable[[Sequence[Symbol], DType], Symbol]


@dataclass(frozen=True, slots=True)
class Update:
    """One parameter's step: its value and state before and after, and the gradient that it follows, clipped."""

    parameter: Symbol
    updated: Symbol
    gradient: Symbol
    states: tuple[Symbol, ...]
    updated_states: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Minimized:
    """All updates, and the scalars that steer them, by name (`rate`, `step`).

    `input_gradients` are those of the further inputs that were asked for, and `norm` is that of all gradients of
    parameters before they are clipped by it.
    """

    updates: tuple[Update, ...]
    scalars: Mapping[str, Symbol]
    input_gradients: tuple[Symbol, ...] = ()
    norm: Symbol | None = None

    def carries(self) -> dict[Symbol, Symbol]:
        """New value → old value, for parameters and states: who takes whose memory."""
        pairs: dict[Symbol, Symbol] = {}
        for update in self.updates:
            pairs[update.updated] = update.parameter
            pairs.update(zip(update.updated_states, update.states, strict=True))
        return pairs


@checked
def minimize(
    graph: SymbolicGraph,
    optimizer: AnyCommand | Mapping[Symbol, AnyCommand],
    losses: Sequence[Symbol],
    parameters: Sequence[Symbol],
    *,
    inputs: Sequence[Symbol] = (),
    scalars: Mapping[str, Symbol] | None = None,
    rates: Mapping[Symbol, Symbol] | None = None,
    clip_norm: float | Symbol | None = None,
    clip_value: float | None = None,
    loss_scale: float | Symbol = 1.0,
    reduction: Callable[[Sequence[Symbol]], Sequence[Symbol]] | None = None,
    changed: Sequence[Symbol] | None = None,
    norm_of: Norm | None = None,
    sources: Sequence[ExecKey] = (),
    destinations: Sequence[ExecKey] = (),
) -> Minimized:
    """Append the gradients of `losses` by `parameters` and `inputs`, and one optimizer exec per parameter.

    `optimizer` is one command for all or one for each: what stands in no decay or in another method is a matter of
    its command. The scalars that commands read are new inputs, but for those given by name in `scalars`, and the
    `rates` of single parameters: a schedule may be computed in the graph. AttributeValueError for a command that is no
    optimizer, a parameter without one, and a limit that is not above 0.

    `sources` and `destinations` bound what is differentiated, as in `backward`.

    Gradients are computed of `loss_scale` times the losses, and divided by it: f16 holds none below 6e-8. A number is
    finite and above 0, or AttributeValueError; a scalar symbol may be another one at each run.

    Updates follow what `reduction` makes of the gradients of the parameters, such as their mean over many processes,
    and are of what is `changed` instead of the parameters, if that is given: parts of them, with gradients of the same
    shapes, whose commands and rates are found by these parts. `norm_of` as in `update_by`.
    """
    changed = parameters if changed is None else changed
    _checked(optimizer, changed, clip_norm, clip_value)
    if not isinstance(loss_scale, Symbol) and not 0.0 < loss_scale < inf:
        got, need = f"loss_scale={loss_scale}", "a finite scale above 0"
        raise AttributeValueError("minimize", got=got, need=need, origin=caller_origin())
    seeds = _seeds(losses, loss_scale)
    gradients = tuple(
        backward(graph, losses, [*parameters, *inputs], seeds, sources=sources, destinations=destinations)
    )
    gradients = tuple(unscaled(gradient, loss_scale) for gradient in gradients)
    followed = gradients[: len(parameters)]
    made = update_by(
        graph,
        optimizer,
        followed if reduction is None else _reduced(followed, reduction, len(changed)),
        changed,
        scalars=scalars,
        rates=rates,
        clip_norm=clip_norm,
        clip_value=clip_value,
        norm_of=norm_of,
    )
    return replace(made, input_gradients=gradients[len(parameters) :])


def _seeds(losses: Sequence[Symbol], scale: float | Symbol) -> list[Symbol] | None:
    """What the losses are multiplied with."""
    if isinstance(scale, Symbol):
        return [multiply(fill_like(loss, 1.0), cast(scale, loss.spec.dtype)) for loss in losses]
    return None if scale == 1.0 else [fill_like(loss, scale) for loss in losses]


def unscaled(gradient: Symbol, scale: float | Symbol) -> Symbol:
    """gradient / scale"""
    if isinstance(scale, Symbol):
        return multiply(gradient, cast(divide(scalar_like(scale, 1.0), scale), gradient.spec.dtype))
    return gradient if scale == 1.0 else affine(gradient, 1.0 / scale)


def _reduced(
    gradients: Sequence[Symbol], reduction: Callable[[Sequence[Symbol]], Sequence[Symbol]], count: int
) -> Sequence[Symbol]:
    """What the reduction makes of the gradients: one for each of what is changed."""
    made = reduction(gradients)
    if not isinstance(made, Sequence) or len(made) != count:
        got, need = f"{shown(made)} from the reduction", f"{count} gradients, one for each parameter"
        raise ArityError("minimize", got=got, need=need, origin=caller_origin())
    return made


@checked
def update_by(
    graph: SymbolicGraph,
    optimizer: AnyCommand | Mapping[Symbol, AnyCommand],
    gradients: Sequence[Symbol],
    parameters: Sequence[Symbol],
    *,
    scalars: Mapping[str, Symbol] | None = None,
    rates: Mapping[Symbol, Symbol] | None = None,
    clip_norm: float | Symbol | None = None,
    clip_value: float | None = None,
    norm_of: Norm | None = None,
) -> Minimized:
    """Append one optimizer exec per parameter, which follows a gradient that is there already (see `minimize`).

    `norm_of` gives the norm of all gradients, where there are more than these: `global_norm` of them otherwise.
    """
    commands = _checked(optimizer, parameters, clip_norm, clip_value)
    if len(gradients) != len(parameters):
        got, need = f"{len(gradients)} gradients", f"{len(parameters)}, one for each parameter"
        raise ArityError("minimize", got=got, need=need, origin=caller_origin())
    norm = None
    dtype = steering_dtype(*(parameter.spec.dtype for parameter in parameters))
    if clip_value is not None:
        gradients = [clamp(gradient, -clip_value, clip_value) for gradient in gradients]
    if clip_norm is not None and gradients:
        norm = (norm_of or global_norm)(gradients, dtype)
        gradients = _scaled_to(gradients, norm, clip_norm)
    steering = dict(scalars or {})
    for name in dict.fromkeys(name for command in commands for name in row_of(command).scalars):
        if name not in steering:
            steering[name] = graph.input(TensorSpec((), dtype), name)
    updates = []
    for parameter, gradient, command in zip(parameters, gradients, commands, strict=True):
        own = {**steering, "rate": (rates or {}).get(parameter, steering["rate"])}
        updates.append(_update(graph, command, parameter, gradient, own))
    return Minimized(tuple(updates), steering, norm=norm)


def _checked(
    optimizer: AnyCommand | Mapping[Symbol, AnyCommand],
    parameters: Sequence[Symbol],
    clip_norm: float | Symbol | None,
    clip_value: float | None,
) -> tuple[AnyCommand, ...]:
    """The command of each parameter, where limits make sense."""
    if any(isinstance(limit, float | int) and not limit > 0.0 for limit in (clip_norm, clip_value)):
        got = f"clip_norm={clip_norm}, clip_value={clip_value}"
        raise AttributeValueError("minimize", got=got, need="limits above 0", origin=caller_origin())
    return _commands(optimizer, parameters)


def _commands(
    optimizer: AnyCommand | Mapping[Symbol, AnyCommand], parameters: Sequence[Symbol]
) -> tuple[AnyCommand, ...]:
    """The command of each parameter."""
    if isinstance(optimizer, Mapping):
        missing = [str(parameter) for parameter in parameters if parameter not in optimizer]
        if missing:
            got = f"no command for {missing[0]}"
            raise AttributeValueError("minimize", got=got, need="one per parameter", origin=caller_origin())
        commands = tuple(optimizer[parameter] for parameter in parameters)
    else:
        commands = (optimizer,) * len(parameters)
    for command in commands if isinstance(optimizer, Mapping) else (optimizer,):
        row_of(command)
    return commands


def _update(
    graph: SymbolicGraph, command: AnyCommand, parameter: Symbol, gradient: Symbol, scalars: Mapping[str, Symbol]
) -> Update:
    row = row_of(command)
    names = [f"{parameter.name}.{name}" for name in row.states]
    specs = row.state_specs(parameter.spec)
    records = (TensorSymbol(spec, name, origin=caller_origin()) for spec, name in zip(specs, names, strict=True))
    states = tuple(graph.symbol(graph.add_tensor(record)) for record in records)
    steering = (scalars[name] for name in row.scalars)
    with reopened(f"{parameter.name}." if parameter.name else opened_scopes()):
        updated, *updated_states = graph.apply(command, (gradient, parameter, *states, *steering))
    return Update(parameter, updated, gradient, states, tuple(updated_states))


@checked
def global_norm(gradients: Sequence[Symbol], dtype: DType = F32) -> Symbol:
    """sqrt(sum over all gradients and all their elements of g²), of one type for all."""
    return sqrt(sum_of(*(reduce_sum(square(cast(gradient, dtype))) for gradient in gradients)))


def _scaled_to(gradients: Sequence[Symbol], norm: Symbol, limit: float | Symbol) -> list[Symbol]:
    """g · min(1, limit / norm); a norm of 0 changes nothing."""
    most = limit if isinstance(limit, Symbol) else scalar_like(norm, limit)
    scale = minimum(divide(most, norm), scalar_like(norm, 1.0))
    return [multiply(gradient, cast(scale, gradient.spec.dtype)) for gradient in gradients]


def steering_dtype(*parameters: DType) -> DType:
    """Element type of an optimizer's scalars: f64 beside f64 parameters, else f32: steps count high."""
    return F64 if F64 in parameters else F32
