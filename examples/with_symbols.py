"""Digits on the symbolic graph: build, differentiate, plan, compile. Run: python examples/with_symbols.py"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn, ops
from nnc.core.values.command import Command
from nnc.core.values.tensor import Tensor
from nnc.nn.data import Batches, load
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile, minimize

LAYERS = nn.Sequential(conv=nn.Convolution(8), pool=nn.MaxPool(2), flatten=nn.Flatten(), head=nn.Dense(10))
Step = tuple[Compiled, Symbol, Symbol, Symbol]


def train(epochs: int = 3, batch_size: int = 64) -> list[float]:
    """Loss after each update; the same work as with models, so the same losses."""
    tensors = nn.Model(LAYERS, (8, 8, 1), seed=0).tensors()
    states = {path: Tensor.zeros(tensor.spec) for path, tensor in tensors.items()}
    steps: dict[int, Step] = {}
    losses = list[float]()
    batches = Batches(load("digits").train, batch_size, seed=0)
    for batch in (batch for _ in range(epochs) for batch in batches):
        if len(batch) not in steps:
            steps[len(batch)] = build(len(batch), tensors, states)
        step, x, labels, loss = steps[len(batch)]
        losses.append(float(step({x: batch.inputs, labels: batch.labels}, loss)[0]))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; {steps[batch_size][0].memory()}")
    return losses


def build(batch: int, tensors: dict[str, Tensor], states: dict[str, Tensor]) -> Step:
    """The training step as a graph: forward, gradients, updates over the old memory."""
    graph = SymbolicGraph("digits")
    x, labels = graph.input(nnc.spec((batch, 8, 8, 1)), "x"), graph.input(nnc.spec((batch,), nnc.i32), "labels")
    weights = {path: graph.input(tensor.spec, path) for path, tensor in tensors.items()}
    y = ops.convolution(x, weights["conv.weight"], weights["conv.bias"], window=ops.window_of(3, padding="same"))
    y = ops.max_pool(ops.relu(y), (2, 2), ops.window_of(2, stride=2))
    logits = ops.reshape(y, (batch, -1)) @ weights["head.weight"] + weights["head.bias"]
    loss = ops.reduce_mean(ops.softmax_cross_entropy(logits, labels)[0])
    step = minimize(graph, Command(SGD, SGDAttrs(momentum=0.9)), [loss], list(weights.values()))
    given = {weights[path]: tensor for path, tensor in tensors.items()}
    given.update({update.states[0]: states[update.parameter.name] for update in step.updates})
    given[step.scalars["rate"]] = Tensor.from_numpy(np.float32(0.1))
    return compile(graph, [loss], given=given, carry=step.carries()), x, labels, loss


if __name__ == "__main__":
    train()
