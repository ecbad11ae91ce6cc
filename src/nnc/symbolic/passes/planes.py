"""Planes: a convolution over three axes is one over two, of which each image holds what a window sees along the first.

    y[n, o, …] = sum over k of x[n, o · stride + k · dilation - before, …] * w[k, …]
    becomes      p[(n, o), …, (k, c)] = x[n, o · stride + k · dilation - before, …, c]
                 y[(n, o), …] = p * w[…, (k, c), …]

so that the kernels of images serve it, and its gradients likewise. It is done where the backends have none for three
axes. With groups, channels of one group would not lie side by side in p.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce

from nnc.classes import dataclass
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.spec import Shape
from nnc.ops.convolutions.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
    convolution,
    data_gradient,
    weight_gradient,
)
from nnc.ops.convolutions.resize import pad
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import add, relu
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.movement import EmbedAttrs, concatenate, embed, slice_axis, transpose
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecSymbol
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, is_dense, producer, rewrite


def split_planes(graph: SymbolicGraph, wanted: tuple[Symbol, ...], backend: str = "") -> Counter[str]:
    """Rewrite the convolutions over three axes, and their gradients; how many there were."""
    among = [key for key, record in graph.execs.items() if _is_deep(record)]
    return rewrite(graph, RULES, wanted, among, backend) if among else Counter()


def _is_deep(record: ExecSymbol) -> bool:
    attrs = record.command.attrs
    is_convolution = isinstance(attrs, ConvolutionAttrs | ConvolutionGradientAttrs)
    return is_convolution and len(attrs.window.strides) == 3 and attrs.groups == 1


@dataclass(frozen=True, slots=True)
class _Planes:
    """Data [n, depth, …, c] under a window of `taps` along the depth, which is at `outputs` places."""

    data: Shape
    window: Window
    taps: int
    outputs: int

    @property
    def flat(self) -> Window:
        """The window along the other axes."""
        window = self.window
        return Window(window.strides[1:], window.padding[1:], window.dilations[1:])

    @property
    def channels(self) -> int:
        return self.taps * self.data[4]

    def images(self, y: Symbol) -> Symbol:
        """[n, places, …] → [(n, places), …]"""
        return reshape(y, (self.data[0] * self.outputs, *y.shape[2:]))

    def gathered(self, x: Symbol) -> Symbol:
        """p of x."""
        before, after = self.window.padding[0]
        stride, dilation = self.window.strides[0], self.window.dilations[0]
        whole = pad(x, (0, before, 0, 0, 0), (0, after, 0, 0, 0)) if before or after else x
        reach = (self.outputs - 1) * stride + 1
        starts = range(0, self.taps * dilation, dilation)
        return self.images(concatenate([slice_axis(whole, 1, start, start + reach, stride) for start in starts], 4))

    def spread(self, p: Symbol) -> Symbol:
        """The data's places, each the sum of its places in p."""
        count, depth, height, width, channels = self.data
        before, after = self.window.padding[0]
        parts, row, plane = (
            reshape(p, (count, self.outputs, height, width, -1)),
            width * channels,
            height * width * channels,
        )
        whole = (count, before + depth + after, height, width, channels)
        strides = (whole[1] * plane, self.window.strides[0] * plane, row, channels, 1)
        laid = [
            embed(
                slice_axis(parts, 4, k * channels, (k + 1) * channels),
                EmbedAttrs(whole, k * self.window.dilations[0] * plane, strides),
            )
            for k in range(self.taps)
        ]
        return slice_axis(reduce(add, laid), 1, before, before + depth)

    def filters(self, w: Symbol) -> Symbol:
        """w[k, …, c, f] → [… , (k, c), f]"""
        return reshape(transpose(w, (1, 2, 0, 3, 4)), (*w.shape[1:3], self.channels, w.shape[4]))


def _is_unserved(match: Match) -> bool:
    """True where the reference would run it, and nobody asked for that."""
    server = DISPATCHER.server(match.command, match.graph.specs(match.record.inputs), (match.result,), match.backend)
    return _is_deep(match.record) and server == DISPATCHER.oracle != match.backend


def _replaced(match: Match, y: Symbol) -> Replacement:
    """A wanted result has memory of its own."""
    return (contiguous(y) if match.record.outputs[0] in match.wanted else y,)


def _forward(match: Match) -> Replacement | None:
    if not _is_unserved(match):
        return None
    x, w, result = match.input(0), match.input(1), match.result.shape
    planes = _Planes(x.shape, match.command.attrs.window, w.shape[0], result[1])
    y = convolution(planes.gathered(x), planes.filters(w), match.inputs[2], window=planes.flat)
    return _replaced(match, reshape(y, result))


def _of_data(match: Match) -> Replacement | None:
    if not _is_unserved(match):
        return None
    g, w, data = match.input(0), match.input(1), match.result.shape
    planes = _Planes(data, match.command.attrs.window, w.shape[0], g.shape[1])
    p = data_gradient(planes.images(g), planes.filters(w), planes.flat, 1, data[2:4])
    return _replaced(match, planes.spread(p))


def _of_weights(match: Match) -> Replacement | None:
    if not _is_unserved(match):
        return None
    x, g, weights = match.input(0), match.input(1), match.result.shape
    planes = _Planes(x.shape, match.command.attrs.window, weights[0], g.shape[1])
    flat = weight_gradient(planes.gathered(x), planes.images(g), planes.flat, 1, weights[1:3])
    apart = reshape(flat, (*weights[1:3], weights[0], *weights[3:]))
    return _replaced(match, transpose(apart, (2, 0, 1, 3, 4)))


def _relu_of_planes(match: Match) -> Replacement | None:
    """relu(reshape(y)) = reshape(relu(y)), which is done while y is written."""
    graph, x = match.graph, match.input(0)
    root = graph.root(x.key)
    whole = graph.symbol(root)
    alone = has_one_reader(graph, root) and x.spec.elements == whole.spec.elements and is_dense(graph, x.key)
    if x.key == root or not alone or producer(graph, root, CONVOLUTION) is None:
        return None
    return (reshape(relu(whole), x.shape),)


RULES: tuple[Rule, ...] = (
    Rule("planes", CONVOLUTION, _forward),
    Rule("planes of a data gradient", CONVOLUTION_DATA_GRADIENT, _of_data),
    Rule("planes of a weight gradient", CONVOLUTION_WEIGHT_GRADIENT, _of_weights),
    Rule("relu of planes", relu, _relu_of_planes),
)
