"""Models inside eager code: one node of the record, which keeps what the gradient reads.

    y = nnc.nn.dynamic_evaluate(model, x)                          gradients go to x
    y = nnc.nn.dynamic_evaluate(model, x, weights)                 and to the weights by path

The model's program for these shapes is compiled once. In training its statistics are renewed as `fit` renews them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnc.arguments import checked
from nnc.nn.model.eager_model import eager_outputs
from nnc.nn.model.model import Model


@checked
def dynamic_evaluate(model: Model, x: Any, tensors: Mapping[str, Any] | None = None, *, training: bool = False) -> Any:  # noqa: ANN401  # arrays and operands of all kinds
    """The model's outputs for `x`, an array or an eager variable, with its own tensors, or with others by path.

    In `training` layers drop and normalize as in training, with draws of this call, and statistics that change are
    written to the model.

    >>> import nnc
    >>> model = nnc.nn.Model(nnc.nn.Dense(1), (2,))
    >>> slope = nnc.grad(lambda x: nnc.nn.dynamic_evaluate(model, x).sum())(nnc.tensor([[1.0, 2.0]]))
    >>> bool((slope.numpy()[0] == model.parameters["weight"].numpy().ravel()).all())
    True
    """
    return eager_outputs(model, x, tensors, training)
