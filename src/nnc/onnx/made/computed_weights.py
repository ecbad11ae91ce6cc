"""Weights that programs of a file make of those in it beforehand: one copy for all programs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from nnc.core.values.spec import Blocked
from nnc.core.values.tensor import Tensor
from nnc.onnx.weights import MOST_PACKED, SharedWeights
from nnc.symbolic import Symbol, TensorKey, compile
from nnc.symbolic.passes import Beforehand, prune
from nnc.symbolic.sharing.mapped_weights import content_name
from nnc.symbolic.sharing.value_names import value_names


def computed_weights(
    weights: SharedWeights,
    before: Beforehand,
    given: Callable[[Collection[Symbol]], Mapping[Symbol, Tensor]],
    name: Callable[[Symbol], str],
    wanted: Collection[Symbol],
    names: dict[TensorKey, str],
) -> tuple[dict[Symbol, Tensor], int]:
    """The `wanted` results of weights, computed where nobody holds them; bytes that were there to make them.

    Their `names` are kept, by symbol, for graphs that do the same work.
    """
    if any(symbol.key not in names for symbol in wanted):
        known = {inner.key: name(symbol) for symbol, inner in before.parameters.items()}
        named = value_names(before.graph, known)
        names.update((symbol.key, named[before.graph.root(before.results[symbol].key)]) for symbol in wanted)
    places = {symbol: names[symbol.key] for symbol in wanted}
    kept = {symbol: tensor for symbol, place in places.items() if (tensor := weights.held(place)) is not None}
    own = {symbol: Tensor.empty(symbol.spec, "frozen weight") for symbol in wanted if symbol not in kept}
    if not own:
        return kept, 0
    bind = {before.results[symbol]: tensor for symbol, tensor in own.items()}
    prune(before.graph, tuple(bind))
    tensors = given(before.parameters)
    read = {inner: tensors[symbol] for symbol, inner in before.parameters.items()}
    # Once, and each of other shapes: not worth native code.
    folding = compile(before.graph, tuple(bind), given=read, bind=bind, backend="reference")
    folding.run()
    folding.clear()  # now: what it is made of refers to itself, and would keep the arena until somebody looks for that
    making = sum(value.spec.nbytes for value in own.values())
    if weights.is_mapped:
        making += sum(value.spec.nbytes for value in own.values() if value.spec.nbytes > MOST_PACKED)
        own = _mapped(weights, own)
    for symbol, tensor in own.items():
        weights.hold(places[symbol], tensor)
    # The reference has a second copy of what it puts into blocks, one tensor after the other.
    copied = max((value.spec.nbytes for value in own.values() if isinstance(value.spec.layout, Blocked)), default=0)
    return kept | own, making + folding.memory().arena + copied


def _mapped(weights: SharedWeights, own: Mapping[Symbol, Tensor]) -> dict[Symbol, Tensor]:
    """The same, of which large ones lie in a file that other processes map."""
    names = {symbol: content_name(tensor) for symbol, tensor in own.items() if tensor.spec.nbytes > MOST_PACKED}
    tensors = {name: own[symbol] for symbol, name in names.items()}
    sizes = {name: tensor.spec.nbytes for name, tensor in tensors.items()}
    mapped = (weights.mapped(sizes, lambda: tensors) if sizes else None) or {}
    held = {symbol: mapped[name] for symbol, name in names.items()}
    placed = {symbol: Tensor(own[symbol].spec, tensor.storage, tensor.offset) for symbol, tensor in held.items()}
    return {symbol: placed.get(symbol, tensor) for symbol, tensor in own.items()}
