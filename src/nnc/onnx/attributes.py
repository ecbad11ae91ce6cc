"""Attributes as ONNX has them: names that an operator has, and values that it allows. Rows ask for nothing else.

Operands of complex numbers are looked at too: where a row takes real ones, NumPy drops imaginary parts with a warning.

What is not in the tables is checked by the row that reads it, against its operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from nnc.errors import DTypeError, FormatError
from nnc.onnx.file import schema_of
from nnc.onnx.node import Array, OnnxNode

Values = tuple[object, ...]
SWITCH: Values = (0, 1)
PADS: Values = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
REDUCTIONS: Values = ("none", "add", "mul", "max", "min")
MEANS: Values = ("none", "mean", "sum")
SEQUENCES: Mapping[str, Values] = {"direction": ("forward", "reverse", "bidirectional"), "layout": SWITCH}
# By operator and attribute, the values that the standard allows.
ALLOWED: Mapping[str, Mapping[str, Values]] = {
    **{name: {"auto_pad": PADS} for name in ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")},
    **{name: {"auto_pad": PADS, "ceil_mode": SWITCH} for name in ("AveragePool", "LpPool")},
    "MaxPool": {"auto_pad": PADS, "ceil_mode": SWITCH, "storage_order": SWITCH},
    **dict.fromkeys(("LSTM", "GRU", "RNN"), SEQUENCES),
    "Resize": {
        "mode": ("nearest", "linear", "cubic"),
        "coordinate_transformation_mode": (
            "half_pixel",
            "half_pixel_symmetric",
            "pytorch_half_pixel",
            "align_corners",
            "asymmetric",
            "tf_half_pixel_for_nn",
            "tf_crop_and_resize",
        ),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
        "antialias": SWITCH,
    },
    "Upsample": {"mode": ("nearest", "linear", "bilinear")},
    "RoiAlign": {"mode": ("avg", "max"), "coordinate_transformation_mode": ("half_pixel", "output_half_pixel")},
    "Gelu": {"approximate": ("none", "tanh")},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "BitShift": {"direction": ("LEFT", "RIGHT")},
    **{name: {"reduction": REDUCTIONS} for name in ("ScatterND", "ScatterElements")},
    **{name: {"reduction": MEANS} for name in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
    "LpNormalization": {"p": (1, 2)},
    "BatchNormalization": {"training_mode": SWITCH},
    "TopK": {"largest": SWITCH, "sorted": SWITCH},
    "CumSum": {"exclusive": SWITCH, "reverse": SWITCH},
    "Mod": {"fmod": SWITCH},
    "Unique": {"sorted": SWITCH},
}


def check_attributes(node: OnnxNode) -> None:
    """FormatError for an attribute that the operator does not have, or for a value that is none of those allowed."""
    known = _names(node.op, node.opset, node.domain)
    unknown = next((name for name in node.attributes if known is not None and name not in known), None)
    if unknown is not None:
        need = ", ".join(sorted(known or ())) or "no attributes"
        raise FormatError(node.label, got=f"the attribute {unknown}", need=need)
    for name, values in ALLOWED.get(node.op, {}).items() if not node.domain else ():
        given = node.attributes.get(name, values[0])
        if given not in values:
            raise FormatError(node.label, got=f"{name} {given!r}", need="one of " + ", ".join(map(str, values)))
    pads = node.attributes.get("pads", ())
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode != "NOTSET" and isinstance(pads, tuple) and any(pads):
        raise FormatError(node.label, got=f"auto_pad {mode} and pads {list(pads)}", need="one of them")


@lru_cache(maxsize=4096)
def _names(op: str, opset: int, domain: str) -> frozenset[str] | None:
    """The attributes of an operator; None for one that ONNX does not describe."""
    schema = schema_of(op, opset, domain)
    return None if schema is None else frozenset(schema.attributes)


def check_complex(node: OnnxNode, operands: Sequence[Array | None]) -> None:
    """DTypeError for an operand of complex numbers where ONNX describes the operator, and has none of them there."""
    for place, array in enumerate(operands):
        if array is None or array.dtype.kind != "c":
            continue
        kinds = _kinds(node.op, node.opset, node.domain)
        if kinds and f"tensor({array.dtype})" not in kinds[min(place, len(kinds) - 1)]:
            raise DTypeError(node.label, got=f"complex numbers as input {place}", need="real numbers")


@lru_cache(maxsize=4096)
def _kinds(op: str, opset: int, domain: str) -> tuple[frozenset[str], ...]:
    """The types of each input of an operator, the last one's for all behind it; empty where ONNX describes none."""
    schema = schema_of(op, opset, domain)
    return () if schema is None else tuple(frozenset(operand.types) for operand in schema.inputs)
