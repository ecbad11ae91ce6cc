"""Steps of a generation: scores of the next tokens, from new tokens and what is kept of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnc.core.values.dtype import I32
from nnc.core.values.spec import TensorSpec
from nnc.errors import UsageError
from nnc.nn.layers.attention import masked_attention, seen_columns
from nnc.nn.layers.layer import AttentionForm, ParameterSpec, Scope, StepCache
from nnc.nn.steps.frozen_steps import Freezing, FrozenGraph, without_weights
from nnc.nn.steps.kept_heads import KeptHeads, PageInputs
from nnc.nn.steps.keys import StepKey
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.model_step import CACHE, Ends, ModelStep, PlannedStep
from nnc.nn.steps.padding import Built
from nnc.nn.steps.step_graph import StepGraph
from nnc.nn.steps.training_steps import forward_only
from nnc.ops import broadcast_to, gather, reshape, scatter
from nnc.symbolic import Symbol
from nnc.symbolic.records import ExecKey

# Of caches in a trace; no other size there is the same.
TRACED_CAPACITY = 11


def generating(step: StepGraph, key: StepKey, freezing: Freezing | None) -> PlannedStep:
    """The step of `_generation`, over the weights of the model or frozen ones."""
    parameters = dict(step.given)
    ends, carry = _generation(step, key)
    if freezing is None:
        return forward_only(step, ends, carry).planned()
    frozen = without_weights(replace(step, given=parameters), (*ends[2], *carry), freezing.quantization, folding=())
    frozen.put_in_blocks(freezing.blocks)
    read = frozenset(frozen.read)
    own = {name: symbol for name, symbol in frozen.names().items() if symbol in read}
    own |= {name: symbol for name, symbol in step.given.items() if name.startswith(CACHE)}
    compiled = step.lower(ends[2], dict.fromkeys(own.values()), carry)
    return PlannedStep(ModelStep(compiled, *ends, frozen.reports), own, step.precision, frozen.before, frozen.read)


def frozen_generation(step: StepGraph, key: StepKey, freezing: Freezing) -> FrozenGraph:
    """The graph of such a step without the work on weights, which all lie in order."""
    parameters = dict(step.given)
    ends, carry = _generation(step, key)
    return without_weights(replace(step, given=parameters), (*ends[2], *carry), freezing.quantization, folding=())


def _generation(step: StepGraph, key: StepKey) -> tuple[Ends, dict[Symbol, Symbol]]:
    """Scores of what follows the last of `length` new tokens in each row, whose caches hold `capacity` tokens.

    Inputs are tokens[batch, length], their positions, and ends[batch], which of them is the last one. With `outputs`
    the scores are those behind each token. Where rows have pages there are two more: `PageInputs`.
    """
    batch, steps = key.batch, key.length
    carry: dict[Symbol, Symbol] = {}
    tokens, positions = _tokens(step, batch, steps)
    ends = step.input(TensorSpec((batch,), I32), "ends")

    pages = PageInputs.of(step, key)

    def extend(path: str, value: Symbol) -> Symbol:
        name = f"{CACHE}{path}"
        if pages is not None:
            raise UsageError("prefix", got=f"{path}, kept as a whole", need="keys and values of attention alone")
        rows = reshape(value, (batch, steps, -1))
        if name in step.given:
            raise UsageError("generate", got=f"{path} kept twice", need="a causal layer applied once")
        old = step.given_input(name, replace(rows.spec, shape=(batch, key.capacity, rows.shape[2])))
        places = broadcast_to(reshape(positions, (batch, steps, 1)), rows.shape)
        new = scatter(old, places, rows, 1)
        carry[new] = old
        return reshape(new, (batch, key.capacity, *value.shape[2:]))

    def wanted(value: Symbol) -> Symbol:
        if key.outputs or value.shape[1] == 1:
            return value
        return gather(value, broadcast_to(reshape(ends, (batch, 1, 1)), (batch, 1, value.shape[2])), 1)

    kept = KeptHeads(step, key, positions, carry, pages)
    cache, built = StepCache(positions, extend, wanted, kept.attend), list[ExecKey]()
    with step.graph.observed(built.append):
        (scores,) = _scores(step, tokens, cache)
        if not key.outputs:
            scores = reshape(wanted(scores), (batch, scores.shape[2]))
    (scores,) = step.in_stages(built, (scores,), carry)
    step.split_products((scores,), carry)
    inputs = (tokens, positions, ends) if pages is None else (tokens, positions, ends, pages.places, pages.starts)
    return (inputs, (), (scores,)), carry


def trace_generation(options: ModelOptions, specs: Mapping[str, ParameterSpec], steps: int) -> Built:
    """The graph of new tokens alone: caches are inputs, and where tokens stand in their rows is one."""
    step = StepGraph.begin("trace", options, specs)
    tokens, positions = _tokens(step, 2, steps)

    def extend(path: str, value: Symbol) -> Symbol:
        return step.input(replace(value.spec, shape=(2, TRACED_CAPACITY, *value.shape[2:])), path)

    def attend(path: str, q: Symbol, k: Symbol, v: Symbol, form: AttentionForm) -> Symbol:
        k, v = extend(f"{path}.key", k), extend(f"{path}.value", v)
        return masked_attention(q, k, v, seen_columns(positions, k.shape[1], form.window, form.sinks), form)

    return Built(step.graph, _scores(step, tokens, StepCache(positions, extend, lambda value: value, attend)))


def _tokens(step: StepGraph, batch: int, steps: int) -> tuple[Symbol, Symbol]:
    """Tokens of each row, and their positions in it."""
    spec = replace(step.options.inputs[0], shape=(batch, steps))
    return step.input(spec, "tokens"), step.input(replace(spec, dtype=I32), "positions")


def _scores(step: StepGraph, tokens: Symbol, cache: StepCache[Symbol]) -> tuple[Symbol, ...]:
    return step.options.layer.build_many(Scope(step.weight, cache=cache), (tokens,))
