"""Inputs of a model of a file: what they have to be, and zeros in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import numpy as np

import onnx
from nnc.core.values.spec import TensorSpec
from nnc.errors import FormatError, ShapeError, UsageError
from nnc.onnx.file import dtype_named
from nnc.onnx.made.onnx_program import zeros
from nnc.onnx.node import Array
from nnc.onnx.stored.external import MOST_BYTES


def check_inputs(inputs: Mapping[str, onnx.ValueInfoProto], arrays: Mapping[str, object]) -> None:
    """UsageError or ShapeError for arrays that are not these inputs, as the file declares them."""
    unknown, missing = sorted(arrays.keys() - inputs.keys()), sorted(inputs.keys() - arrays.keys())
    if unknown or missing:
        got = "; ".join(
            f"{kind}: {', '.join(names)}" for kind, names in (("unknown", unknown), ("missing", missing)) if names
        )
        raise UsageError("run", got=got, need=f"the inputs {', '.join(inputs)}")
    for name, operand in inputs.items():
        value = arrays[name]
        if not isinstance(value, np.ndarray) or not operand.type.HasField("tensor_type"):
            continue
        tensor = operand.type.tensor_type
        want = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if tensor.elem_type and value.dtype != want and value.dtype.kind not in "OSU":
            raise UsageError(f"input {name}", got=str(value.dtype), need=str(want), fix="astype() it")
        if tensor.HasField("shape"):
            dims = [dim.dim_value if is_fixed(dim) else None for dim in tensor.shape.dim]
            fits = len(dims) == value.ndim and all(a in (None, b) for a, b in zip(dims, value.shape, strict=True))
            if not fits:
                raise ShapeError(f"input {name}", got=str(list(value.shape)), need=str(dims).replace("None", "any"))


def is_fixed(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether the file gives the size; some exporters write -1 for an open one."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def check_sizes(inputs: Mapping[str, onnx.ValueInfoProto], sizes: Iterable[str]) -> None:
    """UsageError for the size of what is neither an open dimension nor an input without axes."""
    known: dict[str, None] = {}
    for name, info in inputs.items():
        dims = info.type.tensor_type.shape.dim
        known |= dict.fromkeys(dim.dim_param or f"{name}.{axis}" for axis, dim in enumerate(dims) if not is_fixed(dim))
        known |= {} if dims else {name: None}
    for name in sizes:
        if name not in known:
            near = get_close_matches(name, known, 1)
            need = f"one of {', '.join(known)}" if known else "none, as the file gives all of them"
            raise UsageError("onnx", got=f"a size of {name}", need=need, fix=f"{near[0]}=…" if near else "")


def declared(info: onnx.ValueInfoProto) -> str:
    """A value as the file declares it: `x: f32[batch, 3, 8]`."""
    tensor = info.type.tensor_type
    if not tensor.elem_type:
        return info.name
    axes = [
        str(dim.dim_value) if is_fixed(dim) else dim.dim_param or f"{info.name}.{axis}"
        for axis, dim in enumerate(tensor.shape.dim)
    ]
    return f"{info.name}: {onnx.TensorProto.DataType.Name(tensor.elem_type).lower()}[{', '.join(axes)}]"


def placeholder(name: str, info: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> Array:
    """An array of the declared shape that takes no memory."""
    tensor = info.type.tensor_type
    shape = []
    for axis, dim in enumerate(tensor.shape.dim):
        label = dim.dim_param or f"{name}.{axis}"
        if is_fixed(dim):
            shape.append(dim.dim_value)
        elif label in sizes:
            shape.append(sizes[label])
        else:
            raise UsageError(
                "plan", got=f"open dimension {label} of {name}", need="its size", fix=f"sizes={{'{label}': …}}"
            )
    if any(size < 0 for size in shape):
        raise FormatError(f"input {name}", got=f"shape {shape}", need="sizes ≥ 0")
    spec = TensorSpec(tuple(shape), dtype_named(tensor.elem_type))
    if spec.nbytes > MOST_BYTES:
        raise ShapeError(f"input {name}", got=str(spec), need=f"at most {MOST_BYTES} bytes")
    if not shape and name in sizes:
        return np.full((), sizes[name], spec.dtype.numpy)
    return zeros(spec.shape, spec.dtype.numpy)
