"""A graph of a file as a layer: parameters by the names of its initializers, up to a tensor of the file.

    body = OnnxLayer(read("model.onnx"), output="pool5")
    model = nn.Model(nn.Sequential(body, nn.Flatten(), nn.Dense(10)), (3, 48, 192))

The model is one like others: its memory is known before a step, it is trained, limited, frozen and saved.
"""

from __future__ import annotations

from dataclasses import field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from nnc import ops
from nnc.arguments import Finite, Size, checked
from nnc.classes import dataclass
from nnc.core.values.spec import TensorSpec
from nnc.errors import FormatError, UsageError
from nnc.nn.layers.initializers import Initializer, he_uniform, zeros
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.onnx.file import GraphPart, OnnxFile
from nnc.onnx.importer import OnnxImporter
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import Array
from nnc.onnx.node_values import OnnxValue
from nnc.onnx.operators import ROWS, SPECIALS
from nnc.onnx.subgraphs import leading_to
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.passes import Pass, simplify


@checked
@dataclass(frozen=True, slots=True, eq=False)
class OnnxLayer(Layer):
    """The part of a file from its one input to the tensor `output` (the file's first output if empty).

    Initializers of a float type whose name matches one of `trainable` are parameters; all others, and the running
    statistics of batch norms, keep their values. With a `rank` the matrices and kernels among them keep theirs too, and
    what is trained beside each is a product of two narrow matrices, w + (alpha / rank) · a · b (Hu et al. 2022).
    """

    file: OnnxFile
    output: str = ""
    trainable: tuple[str, ...] = field(default=("*",))
    rank: Size = 0
    alpha: Finite = 16.0

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`, a symbol."""
        if not isinstance(x, Symbol):
            raise UsageError("OnnxLayer", got=f"a {type(x).__name__}", need="a symbol", fix="use it in a Model")
        name, graph = self._input(), self._graph()
        fixed = {value for node in graph.node if node.op_type == "BatchNormalization" for value in node.input[3:5]}

        def source(spec: TensorSpec, weight: str, values: Array) -> Symbol:
            spec = spec.on(x.spec.device)
            path = weight.replace(".", "_") or f"constant{len(made)}"
            made.append(path)
            is_trained = bool(weight) and spec.dtype.is_float and spec.rank > 0 and weight not in fixed
            is_trained = is_trained and any(fnmatchcase(weight, pattern) for pattern in self.trainable)
            if is_trained and not self.rank:
                tensor = scope.parameter_of(path, spec, _copy_of(values))
            elif is_trained and spec.rank > 1:
                tensor = self._adapted(scope, path, spec, values)
            else:
                tensor = scope.statistic(path, spec.shape, spec.dtype, _copy_of(values))
            assert isinstance(tensor, Symbol)
            inner = own.input(spec, path)
            outer[inner.key] = x.graph.own(tensor)
            return inner

        made: list[str] = []
        # In a graph of its own at first: where channels are is decided before there are gradients.
        own = SymbolicGraph("file")
        given = own.input(x.spec, name)
        outer = {given.key: (x if x.graph.root(x.key) == x.key else ops.contiguous(x)).key}
        importer = OnnxImporter(self.file, ROWS, SPECIALS, own, source)
        try:
            results = importer.run(graph, {name: OnnxValue(symbol=given, sources=frozenset((name,)))})
        except Unknown as unknown:
            raise UsageError("OnnxLayer", got=unknown.what, need="options that do not depend on data") from None
        y = importer.operand(results[0])
        simplify(own, (y,), (Pass.LAYOUT,))
        x.graph.graft(own, own.execs.toposort(), (y.key,), outer)
        return x.graph.symbol(outer[y.key])  # type: ignore[return-value]  # T is Symbol here

    def _adapted(self, scope: Scope[T], path: str, spec: TensorSpec, values: Array) -> T:
        """A weight that stays, with a product of two narrow matrices beside it, which begins as nothing."""
        rows, columns = spec.shape[0], spec.elements // max(spec.shape[0], 1)
        a = scope.parameter_of(f"{path}_lora_a", TensorSpec((rows, self.rank), spec.dtype), he_uniform)
        b = scope.parameter_of(f"{path}_lora_b", TensorSpec((self.rank, columns), spec.dtype), zeros)
        kept = scope.statistic(path, spec.shape, spec.dtype, _copy_of(values))
        return ops.add(kept, ops.affine(ops.reshape(ops.gemm(a, b), spec.shape), self.alpha / self.rank))

    def _input(self) -> str:
        initialized = {value.name for value in self.file.graph.initializer}
        names = [value.name for value in self.file.graph.input if value.name not in initialized]
        if len(names) != 1:
            raise UsageError("OnnxLayer", got=f"inputs {', '.join(names) or 'none'}", need="a file with one input")
        return str(names[0])

    def _graph(self) -> GraphPart:
        output = self.output or self.file.graph.output[0].name
        graph = leading_to(self.file.graph, [output])
        if graph is None:
            raise FormatError("OnnxLayer", got=f"output {output!r}", need="a tensor that a node of the file writes")
        return graph

    def __repr__(self) -> str:
        return f"OnnxLayer({self.output or self.file.graph.output[0].name!r})"


def _copy_of(values: Array) -> Initializer:
    def initialize(generator: np.random.Generator, target: NDArray[np.generic]) -> None:
        target[...] = values

    return initialize
