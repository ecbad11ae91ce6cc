"""Planes: a convolution over three axes is one over two, of which each image holds what a window sees along the first.

    y[n, o, …] = sum over k of x[n, o · stride + k · dilation - before, …] * w[k, …]
    becomes      p[(n, o), …, (k, c)] = x[n, o · stride + k · dilation - before, …, c]
                 y[(n, o), …] = p * w[…, (k, c), …]

so that the kernels of images serve it. It is done where the backends have none for three axes.
"""

from __future__ import annotations

from collections import Counter

from nnc.core.dispatch import DISPATCHER
from nnc.ops.broadcast import reshape
from nnc.ops.convolutions import CONVOLUTION, ConvolutionAttrs, convolution
from nnc.ops.copy import contiguous
from nnc.ops.movement import concatenate, slice_axis, transpose
from nnc.ops.pointwise import RELU, relu
from nnc.ops.resize import pad
from nnc.ops.window import Window
from nnc.symbolic.ir import ExecSymbol, Symbol, SymbolicGraph
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, is_dense, producer, rewrite


def split_planes(graph: SymbolicGraph, wanted: tuple[Symbol, ...], backend: str = "") -> Counter[str]:
    """Rewrite the convolutions over three axes; how many there were."""
    among = [key for key, record in graph.execs.items() if _is_deep(record)]
    return rewrite(graph, RULES, wanted, among, backend) if among else Counter()


def _is_deep(record: ExecSymbol) -> bool:
    """With groups, channels of one group would not lie side by side."""
    attrs = record.command.attrs
    return isinstance(attrs, ConvolutionAttrs) and len(attrs.window.strides) == 3 and attrs.groups == 1


def _planes(match: Match) -> Replacement | None:
    record, specs = match.record, match.graph.tensors
    inputs = tuple(None if key is None else specs[key].spec for key in record.inputs)
    server = DISPATCHER.server(match.command, inputs, (match.result,), match.backend)
    if not _is_deep(record) or server != DISPATCHER.oracle or match.backend == server:
        return None
    x, w, bias = match.input(0), match.input(1), match.inputs[2]
    window, result = match.command.attrs.window, match.result.shape
    stride, (before, after), dilation = window.strides[0], window.padding[0], window.dilations[0]
    if before or after:
        x = pad(x, (0, before, 0, 0, 0), (0, after, 0, 0, 0))
    starts = [k * dilation for k in range(w.shape[0])]
    seen = [slice_axis(x, 1, start, start + (result[1] - 1) * stride + 1, stride) for start in starts]
    count, channels = result[0] * result[1], len(seen) * x.shape[4]
    planes = reshape(concatenate(seen, 4), (count, *x.shape[2:4], channels))
    filters = reshape(transpose(w, (1, 2, 0, 3, 4)), (*w.shape[1:3], channels, w.shape[4]))
    flat = Window(window.strides[1:], window.padding[1:], window.dilations[1:])
    y = reshape(convolution(planes, filters, bias, window=flat), result)
    return (contiguous(y) if match.record.outputs[0] in match.wanted else y,)


def _relu_of_planes(match: Match) -> Replacement | None:
    """relu(reshape(y)) = reshape(relu(y)), which is done while y is written."""
    graph, x = match.graph, match.input(0)
    root = graph.root(x.key)
    whole = graph.symbol(root)
    alone = has_one_reader(graph, root) and x.spec.elements == whole.spec.elements and is_dense(graph, x.key)
    if x.key == root or not alone or producer(graph, root, CONVOLUTION) is None:
        return None
    return (reshape(relu(whole), x.shape),)


RULES: tuple[Rule, ...] = (Rule("planes", CONVOLUTION, _planes), Rule("relu of planes", RELU, _relu_of_planes))
