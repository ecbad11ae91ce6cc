"""Transforms of the symbolic graph, one file each: valid graph in, valid graph out."""

from nnc.core.quantization_modes import QuantizationMode
from nnc.symbolic.passes.blocks import assign_blocks, put_in_blocks, takes_blocks, wished_blocks, wished_layouts
from nnc.symbolic.passes.groups import fuse
from nnc.symbolic.passes.invariants import hoist
from nnc.symbolic.passes.layout import assign_layouts, has_channels_first
from nnc.symbolic.passes.numbers.integer_products import SUMS, sum_integers
from nnc.symbolic.passes.numbers.precision import lower_precision
from nnc.symbolic.passes.numbers.quantization import QuantizedProduct, quantize_products
from nnc.symbolic.passes.parts import part_batch
from nnc.symbolic.passes.precomputation import Beforehand, bytes_beforehand, precompute
from nnc.symbolic.passes.pruning import prune
from nnc.symbolic.passes.simplification import DEFAULT, Report, simplify
from nnc.symbolic.passes.standard import Pass
from nnc.symbolic.passes.subexpressions import eliminate_common
from nnc.symbolic.placement import is_on_host, place

__all__ = [
    "DEFAULT",
    "SUMS",
    "Beforehand",
    "Pass",
    "QuantizationMode",
    "QuantizedProduct",
    "Report",
    "assign_blocks",
    "assign_layouts",
    "eliminate_common",
    "fuse",
    "has_channels_first",
    "hoist",
    "is_on_host",
    "lower_precision",
    "part_batch",
    "place",
    "bytes_beforehand",
    "precompute",
    "prune",
    "put_in_blocks",
    "quantize_products",
    "simplify",
    "sum_integers",
    "takes_blocks",
    "wished_blocks",
    "wished_layouts",
]
