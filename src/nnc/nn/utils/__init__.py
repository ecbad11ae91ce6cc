"""PyTorch's `torch.nn.utils`: gradients within bounds, parameters as a vector, sequences of several lengths.

loss.backward()
nn.utils.clip_grad_norm_(net.parameters(), 1.0)
optimizer.step()
"""

from nnc.nn.utils import rnn as rnn
from nnc.nn.utils.gradients import (
    clip_grad_norm_,
    clip_grad_value_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "rnn", "vector_to_parameters",
]  # fmt: skip
