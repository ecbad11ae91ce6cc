"""TensorFlow's `GradientTape`, for loops of one's own: `gradient(loss, variables)` behind the block.

with GradientTape() as tape:
    loss = loss_fn(y, model(x, training=True))
gradients = tape.gradient(loss, model.trainable_variables)
optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""

from __future__ import annotations

from typing import Any

from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.graph import default_graph
from nnc.dynamic.state import current
from nnc.dynamic.traced import active_trace
from nnc.dynamic.tree import flatten
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError
from nnc.symbolic.gradient import backward


class GradientTape:
    """Gradients, by variables, of what is computed in the block; operators keep what they need anyway.

    >>> from nnc.keras.tape import GradientTape
    >>> w = nnc.variable(3.0)
    >>> with GradientTape() as tape:
    ...     y = w * w
    >>> tape.gradient(y, w).item()
    6.0
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self.persistent = persistent

    def __enter__(self) -> GradientTape:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is recorded but what needs it."""

    def watch(self, tensor: Any) -> None:
        """Let gradients flow to a constant, from here on; to variables they do."""
        for leaf in flatten(tensor)[0]:
            if not isinstance(leaf, Variable):
                fix = "x = nnc.tensor(x) before the block"
                raise ArgumentError("watch", got=shown(leaf), need="a value of nnc", fix=fix, origin=caller_origin())
            if not leaf.requires_grad:
                leaf.requires_grad_(True)

    def gradient(self, target: Any, sources: Any) -> Any:
        """d target / d source for each of the sources, as they hang together."""
        leaves, structure = flatten(sources)
        for leaf in leaves:
            if not isinstance(leaf, Variable) or not leaf.requires_grad:
                got, fix = "what was not watched", "tape.watch(x) in the block, or x = nnc.variable(x) before it"
                raise ArgumentError("gradient", got=got, need="variables", fix=fix, origin=caller_origin())
        total = target if target.shape == () else target.sum()
        trace = active_trace()
        if trace is None:
            slopes: Any = default_graph().backward([total], leaves, constant=True)
        else:
            symbols = [trace.symbol(current(leaf)) for leaf in leaves]
            slopes = [trace.value(slope) for slope in backward(trace.current, [trace.symbol(total)], symbols)]
        return structure.unflatten(list(slopes))
