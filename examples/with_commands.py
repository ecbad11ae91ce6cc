"""One dense layer as a concrete graph: commands on tensors, wired by hand. Run: python examples/with_commands.py"""

from __future__ import annotations

import numpy as np

from nnc import i32, nn, spec
from nnc.concrete import ConcreteGraph
from nnc.core.values.command import Command
from nnc.core.values.tensor import Tensor
from nnc.nn.data import Batches, load
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.normalization.softmaxes import SOFTMAX_CROSS_ENTROPY, SOFTMAX_CROSS_ENTROPY_GRADIENT
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs


def train(epochs: int = 3, batch_size: int = 64) -> list[float]:
    """Mean loss of each batch (whole batches only) of softmax regression on the pixels."""
    new = Tensor.empty
    x, labels = new(spec((batch_size, 64))), new(spec((batch_size,), i32))
    weight, bias = nn.Model(nn.Sequential(dense=nn.Dense(10)), (64,), seed=0).parameters.values()
    weight_state, bias_state = Tensor.zeros(weight.spec), Tensor.zeros(bias.spec)
    rate = Tensor.from_numpy(np.float32(0.5))
    share = Tensor.from_numpy(np.full(batch_size, 1.0 / batch_size, np.float32))
    logits, probability, loss = new(spec((batch_size, 10))), new(spec((batch_size, 10))), new(spec((batch_size,)))
    weight_gradient, bias_gradient = new(weight.spec), new(bias.spec)
    update = Command(SGD, SGDAttrs())

    graph = ConcreteGraph()
    forward = graph.add(Command(GEMM, GemmAttrs()), [x, weight, bias], [logits])
    entropy = graph.add(
        Command(SOFTMAX_CROSS_ENTROPY, NoAttrs()), [logits, labels], [loss, probability], after=[forward]
    )
    # The gradient of the logits takes over the memory of the logits.
    back = graph.add(
        Command(SOFTMAX_CROSS_ENTROPY_GRADIENT, NoAttrs()), [share, probability, labels], [logits], after=[entropy]
    )
    by_weight = graph.add(
        Command(GEMM, GemmAttrs(transpose_a=True)), [x, logits, None], [weight_gradient], after=[back]
    )
    by_bias = graph.add(Command(REDUCE_SUM, ReduceAttrs((0,))), [logits], [bias_gradient], after=[back])
    graph.add(update, [weight_gradient, weight, weight_state, rate], [weight, weight_state], after=[by_weight])
    graph.add(update, [bias_gradient, bias, bias_state, rate], [bias, bias_state], after=[by_bias])

    losses = list[float]()
    batches = Batches(load("digits").train, batch_size, seed=0, drop_last=True)
    for batch in (batch for _ in range(epochs) for batch in batches):
        x.copy_from(batch.inputs.reshape(batch_size, 64))
        labels.copy_from(batch.labels)
        graph.run()
        losses.append(float(loss.numpy().mean()))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    train()
