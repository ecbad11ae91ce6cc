"""Constants of a file that follow its open sizes: made for several values of each, and computed in the file.

    constant = slope_1 · size_1 + … + slope_n · size_n + rest

A graph is written for base sizes, for each size with another value, and once more for others of all of them, which
shows what is no such sum. The shape of a Reshape may have one element that follows sizes in any way: it is -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

import onnx
from nnc.classes import dataclass
from nnc.core.values.spec import TensorSpec
from nnc.errors import UsageError
from nnc.onnx.exporter import OnnxWriter, number_of
from nnc.onnx.node import Array


@dataclass(frozen=True, slots=True)
class OpenSize:
    """A size that is chosen in each run: its name, and the input and axis that it is read from."""

    name: str
    input: str
    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class SizeTerms:
    """Open sizes, and the specs of inputs of each graph: the base, one for each size, and one for all."""

    opened: Sequence[OpenSize]
    inputs: Sequence[Mapping[str, TensorSpec]]

    def values(self, place: int) -> list[int]:
        """Open sizes of a graph."""
        return [self.inputs[place][size.input].shape[size.axis] for size in self.opened]

    def constants(self, writers: Sequence[OnnxWriter]) -> tuple[dict[str, Array], list[onnx.NodeProto]]:
        """Constants of the file, and the nodes of those that follow sizes."""
        kept, nodes = dict[str, Array](), dict[str, onnx.NodeProto]()
        reshaped = _only_shapes(writers[0].nodes)
        for name, constant in writers[0].constants.items():
            others = [writer.constants[name] for writer in writers[1:]]
            if all(constant.shape == other.shape and constant.tobytes() == other.tobytes() for other in others):
                kept[name] = constant
                continue
            if constant.dtype != np.int64 or any(constant.shape != other.shape for other in others):
                raise UsageError("save", got="a constant that depends on an open size", need="sizes alone that do")
            moving = np.any([other != constant for other in others], axis=0)
            if name in reshaped and np.count_nonzero(moving) == 1:
                kept[name] = np.where(moving, -1, constant)
                continue
            slopes, rest = self._terms(constant, others)
            kept[f"{name}.rest"], total = rest, f"{name}.rest"
            for place, (size, slope) in enumerate(zip(self.opened, slopes, strict=True)):
                if not slope.any():
                    continue
                kept[f"{name}.slope{place or ''}"] = slope
                for node in _term(size, name, place, total, last=not any(each.any() for each in slopes[place + 1 :])):
                    nodes.setdefault(node.name, node)
                total = f"{name}.sum{place}"
        return kept, [*nodes.values()]

    def _terms(self, constant: Array, others: Sequence[Array]) -> tuple[list[Array], Array]:
        """Slopes and the rest."""
        base, slopes, rest = self.values(0), [], constant
        for place, other in enumerate(others[: len(self.opened)]):
            slope, left = np.divmod(other - constant, self.values(place + 1)[place] - base[place])
            if left.any():
                raise _no_sum()
            slopes.append(slope)
            rest = rest - slope * base[place]
        for place, other in enumerate(others[len(self.opened) :], len(self.opened) + 1):
            if np.any(
                other != rest + sum(slope * size for slope, size in zip(slopes, self.values(place), strict=True))
            ):
                raise _no_sum()
        return slopes, rest

    def ranges(self, tensors: Sequence[Mapping[str, Array]]) -> tuple[dict[str, Array], list[onnx.NodeProto]]:
        """Of tensors that are others for other sizes what computes them: start + step · (0, 1, … size - 1).

        UsageError for any that is something else.
        """
        constants, nodes = dict[str, Array](), dict[str, onnx.NodeProto]()
        for name, base in tensors[0].items():
            arrays = [each[name] for each in tensors]
            if all(_is_same(base, other) for other in arrays[1:]):
                continue
            for node in self._range(name, arrays, constants):
                nodes.setdefault(node.name, node)
        return constants, [*nodes.values()]

    def _range(self, name: str, arrays: Sequence[Array], constants: dict[str, Array]) -> Iterator[onnx.NodeProto]:
        """The nodes of one such tensor, and their constants."""
        size, longest = self._counted(arrays), max(arrays, key=lambda array: array.size).reshape(-1)
        ends = longest[:2] if longest.dtype.kind in "iuf" and longest.size > 1 else None
        if size is None or ends is None or any(not _are_steps(array, ends) for array in arrays):
            got = f"a constant that depends on {' or '.join(each.name for each in self.opened)}"
            fix = "compute it by arrays, or take it as a part of a buffer: self.mask[:n, :n]"
            raise UsageError("export", got=got, need="sizes alone that do, and arange", fix=fix)
        node, read = onnx.helper.make_node, f"{size.name}.size"
        numbers = {"zero": 0, "one": 1, "step": ends[1] - ends[0], "start": ends[0]}
        constants |= {f"{name}.{part}": np.array(value) for part, value in numbers.items()}
        constants[f"{name}.shape"] = np.array([-1 if axis == arrays[-1].size else axis for axis in arrays[-1].shape])
        yield node("Shape", [size.input], [read], read, start=size.axis, end=size.axis + 1)
        yield node("Squeeze", [read], [f"{read}.number"], f"{read}.number")
        for op, inputs, end in (
            ("Range", [f"{name}.zero", f"{read}.number", f"{name}.one"], "places"),
            ("Cast", [f"{name}.places"], "cast"),
            ("Mul", [f"{name}.cast", f"{name}.step"], "scaled"),
            ("Add", [f"{name}.scaled", f"{name}.start"], "moved"),
        ):
            to = {"to": onnx.helper.np_dtype_to_tensor_dtype(longest.dtype)} if op == "Cast" else {}
            yield node(op, inputs, [f"{name}.{end}"], f"{name}.{end}", **to)  # type: ignore[arg-type]  # an attribute
        yield node("Reshape", [f"{name}.moved", f"{name}.shape"], [name], name)

    def _counted(self, arrays: Sequence[Array]) -> OpenSize | None:
        """The open size that tensors have as many elements as."""
        counts = [array.size for array in arrays]
        sizes = [[self.values(place)[at] for place in range(len(arrays))] for at in range(len(self.opened))]
        return next((size for size, values in zip(self.opened, sizes, strict=True) if values == counts), None)

    def port(self, name: str, specs: Sequence[TensorSpec]) -> onnx.ValueInfoProto:
        """The type of an input or output, of which `specs` are those of each graph."""
        dims: list[int | str] = []
        for axis, sizes in enumerate(zip(*(spec.shape for spec in specs), strict=True)):
            if len(set(sizes)) == 1:
                dims.append(sizes[0])
                continue
            every = [self.values(place) for place in range(len(specs))]
            names = [
                size.name
                for place, size in enumerate(self.opened)
                if all(values[place] == here for values, here in zip(every, sizes, strict=True))
            ]
            dims.append(names[0] if names else f"{name}.{axis}")
        return onnx.helper.make_tensor_value_info(name, number_of(specs[0].dtype), dims)


def _is_same(first: Array, other: Array) -> bool:
    """The same elements; memory that both are views of is not read."""
    if first.shape != other.shape:
        return False
    return first.__array_interface__["data"] == other.__array_interface__["data"] or first.tobytes() == other.tobytes()


def _are_steps(array: Array, ends: Array) -> bool:
    """Whether it goes on from two numbers along one axis."""
    wanted = (ends[0] + np.arange(array.size) * (ends[1] - ends[0])).astype(array.dtype)
    return max(array.shape) == array.size and np.array_equal(array.reshape(-1), wanted)


def _no_sum() -> UsageError:
    got, need = "a size that is no sum of multiples of open sizes", "slope · size + … + rest"
    return UsageError("save", got=got, need=need, fix="fewer open sizes")


def _term(size: OpenSize, name: str, place: int, total: str, *, last: bool) -> Iterable[onnx.NodeProto]:
    """total + slope · size; the last sum has the constant's name."""
    node, read = onnx.helper.make_node, f"{size.name}.size"
    yield node("Shape", [size.input], [read], read, start=size.axis, end=size.axis + 1)
    product = f"{name}.term{place}"
    yield node("Mul", [read, f"{name}.slope{place or ''}"], [product], product)
    end = name if last else f"{name}.sum{place}"
    yield node("Add", [total, product], [end], end)


def _only_shapes(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Names that are read as the shape of a Reshape and as nothing else."""
    shapes = {node.input[1] for node in nodes if node.op_type == "Reshape"}
    return shapes - {
        name for node in nodes for place, name in enumerate(node.input) if node.op_type != "Reshape" or not place
    }
