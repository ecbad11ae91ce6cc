"""One small application of every operator: what lists, tables and benchmarks ask rules and backends about.

example(op) = EXAMPLES[op], or default attributes on equal shapes where the operator takes them
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

from nnc.classes import dataclass
from nnc.core.values.dtype import BF16, BOOL, F16, F32, I32, I64, DType
from nnc.core.values.spec import Layout, TensorSpec, spec
from nnc.graph import OpAttr

# Fields of attributes that say which element type the result has.
_SPEC, _TYPE = "spec", "dtype"


@dataclass(frozen=True, slots=True)
class Example:
    """Attributes and inputs. Every f32 stands for the element type asked about.

    Not so at the positions `fixed`; and those in `wide`, statistics of halves, are f32 for the halves.
    """

    attrs: object
    inputs: tuple[TensorSpec | None, ...]
    fixed: tuple[int, ...] = ()
    wide: tuple[int, ...] = ()

    def typed(self, dtype: DType) -> Example:
        """The same application in another element type."""
        kept = self.fixed + (self.wide if dtype in {F16, BF16} else ())
        inputs = tuple(
            tensor if tensor is None or tensor.dtype is not F32 or position in kept else replace(tensor, dtype=dtype)
            for position, tensor in enumerate(self.inputs)
        )
        return replace(self, attrs=_typed(self.attrs, dtype), inputs=inputs)

    def laid_out(self, layout: Layout) -> Example:
        """The same application on tensors of another layout."""
        return replace(
            self, inputs=tuple(None if tensor is None else replace(tensor, layout=layout) for tensor in self.inputs)
        )


def _typed(attrs: object, dtype: DType) -> object:
    if not is_dataclass(attrs) or isinstance(attrs, type):
        return attrs
    values = {each.name: getattr(attrs, each.name) for each in fields(attrs) if each.name in {_SPEC, _TYPE}}
    changed = {
        name: replace(value, dtype=dtype) if isinstance(value, TensorSpec) else dtype for name, value in values.items()
    }
    return replace(attrs, **changed) if changed else attrs


SCALAR, ROW, COLUMN, MATRIX = spec(()), spec((4,)), spec((4, 1)), spec((4, 4))
IMAGE, HALF_IMAGE, HEADS, BOXES = spec((2, 8, 8, 4)), spec((2, 4, 4, 4)), spec((2, 4, 2, 4)), spec((4, 5))
INDICES, PLACES, LABELS, COUNT = spec((4,), I64), spec((4, 4), I64), spec((4,), I32), spec((), I64)
TRUTH = spec((4, 4), BOOL)

EXAMPLE = OpAttr[Example]("example")
