"""Kernels of fused expressions, which are served where all of their steps are."""

from __future__ import annotations

from dataclasses import replace

from nnc.codegen.frame.epilogue import MOST_WORK, Epilogue
from nnc.codegen.frame.fused import rounds_on_the_way, translate
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.row import KernelRow, Refuse, Rows, Specs, View, Views, Wishes, view_of
from nnc.codegen.ir.expression import work
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.depthwise import Depthwise
from nnc.codegen.kernels.convolutions.winograd import Winograd
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.quantization import integer_products
from nnc.codegen.kernels.quantization.integer_sums_writer import IntegerSums
from nnc.codegen.kernels.reduction.reduction import REDUCTIONS, Reduction
from nnc.core.values.spec import Blocked, Shape, spec
from nnc.graph import OpAttr
from nnc.ops.composed.fused import FUSED_OUTPUT, FUSED_POINTWISE, FUSED_REDUCTION, FusedAttrs, specs_of
from nnc.ops.movement.broadcast import ReduceAttrs

Product = Gemm | Correlation | Winograd | Depthwise | IntegerSums


def fused_rows(rows: OpAttr[KernelRow]) -> Rows:
    """The rows of fused operators, whose steps are served by `rows`."""
    output = _Output(rows)
    return {
        FUSED_POINTWISE: KernelRow(_pointwise, _steps(rows), strided=True, scattered=True),
        FUSED_REDUCTION: KernelRow(_reduction, _reduced(rows), strided=True),
        FUSED_OUTPUT: KernelRow(
            output.generate,
            output.refuse,
            variants=output.variants,
            preferences=output.preferences,
            reads=output.reads,
        ),
    }


def _steps(rows: OpAttr[KernelRow]) -> Refuse:
    """Refuse what one of the steps is refused for."""

    def refuse(attrs: FusedAttrs, inputs: Specs, outputs: Specs) -> str:
        if rounds_on_the_way(attrs):
            return "a rounding on the way"
        specs = specs_of(attrs, tuple(inputs))
        for step, result in zip(attrs.steps, specs[attrs.inputs :], strict=True):
            row = rows.get(step.command.op)
            read = [specs[operand] for operand in step.operands]
            if reason := "no generator" if row is None else row.refuse(step.command.attrs, read, [result]):
                return f"{step.command.op.name}: {reason}"
        return ""

    return refuse


def _pointwise(attrs: FusedAttrs, inputs: Views, outputs: Views) -> Generator:
    (y,) = outputs
    instructions, places = translate(attrs.steps, range(attrs.inputs))
    sources = tuple(view.access(len(y.shape)) for view in inputs)
    return Pointwise(y.shape, sources, (y.whole,), instructions, places[-1:])


def _reduced(rows: OpAttr[KernelRow]) -> Refuse:
    steps = _steps(rows)

    def refuse(attrs: FusedAttrs, inputs: Specs, outputs: Specs) -> str:
        op = attrs.steps[-1].command.op
        return steps(attrs, inputs, outputs) if op in REDUCTIONS else f"{op.name} of an expression"

    return refuse


def _reduction(attrs: FusedAttrs, inputs: Views, outputs: Views) -> Generator:
    end = attrs.steps[-1]
    reduce: ReduceAttrs = end.command.attrs
    instructions, places = translate(attrs.steps[:-1], range(attrs.inputs))
    (whole,) = end.operands
    shape = specs_of(attrs, tuple(spec(view.shape, view.scalar.name) for view in inputs))[whole].shape
    operands = tuple(view.access(len(shape)) for view in inputs)
    marks = tuple(axis in reduce.axes for axis in range(len(shape)))
    return Reduction(REDUCTIONS[end.command.op], shape, operands, marks, outputs[0].scalar, instructions, places[whole])


class _Output:
    """A product's own generator, with the rest of the expression as its epilogue."""

    def __init__(self, rows: OpAttr[KernelRow]) -> None:
        self.rows = rows
        self.steps = _steps(rows)

    def refuse(self, attrs: FusedAttrs, inputs: Specs, outputs: Specs) -> str:
        """Refuse operands of the product that are not the first inputs, and what its generator takes no epilogue of."""
        head, (y,) = attrs.steps[0], outputs
        count = len(head.operands)
        if head.operands != tuple(range(count)) or any(
            operand < count for step in attrs.steps[1:] for operand in step.operands
        ):
            return "operands of the product in another order"
        if reason := self.steps(attrs, inputs, outputs):
            return reason
        product = specs_of(attrs, tuple(inputs))[attrs.inputs].on(y.device)
        sums_bytes = head.command.op in integer_products.ROWS
        alike = product == y and all(operand.dtype is y.dtype for operand in inputs[count:])
        if not (alike or (sums_bytes and product.shape == y.shape)):
            return f"{y} from a product of {product}"
        if any(_extent(operand.shape, y.shape) is None for operand in inputs[count:]):
            return "an operand with other axes than the columns of the product"
        views = [view_of(operand) for operand in inputs]
        generator = self.rows[head.command.op].generate(head.command.attrs, views[:count], [view_of(y)])
        if not isinstance(generator, Product):
            return f"{head.command.op.name} by {type(generator).__name__}"
        return (
            "" if work(self._epilogue(attrs, views, view_of(y)).instructions) <= MOST_WORK else "much work per element"
        )

    def generate(self, attrs: FusedAttrs, inputs: Views, outputs: Views) -> Generator:
        """The product with an epilogue."""
        head = attrs.steps[0]
        generator = self.rows[head.command.op].generate(head.command.attrs, inputs[: len(head.operands)], outputs)
        assert isinstance(generator, Product)
        return _ending(generator, self._epilogue(attrs, inputs, outputs[0]))

    def variants(
        self, attrs: FusedAttrs, inputs: Views, outputs: Views, target: TargetDescription
    ) -> dict[str, Generator]:
        """Those of the product that take an epilogue, with it."""
        head = attrs.steps[0]
        row, given = self.rows[head.command.op], inputs[: len(head.operands)]
        others = row.variants(head.command.attrs, given, outputs, target)
        epilogue = self._epilogue(attrs, inputs, outputs[0])
        return {
            name: _ending(generator, epilogue) for name, generator in others.items() if isinstance(generator, Product)
        }

    def preferences(self, attrs: FusedAttrs, inputs: Views, outputs: Views, target: TargetDescription) -> Wishes:
        """Those of the product."""
        head = attrs.steps[0]
        return self.rows[head.command.op].preferences(head.command.attrs, inputs[: len(head.operands)], outputs, target)

    def reads(
        self, attrs: FusedAttrs, inputs: Views, outputs: Views, place: int, layout: Blocked, target: TargetDescription
    ) -> bool:
        """Those of the product."""
        head = attrs.steps[0]
        given = inputs[: len(head.operands)]
        reads = self.rows[head.command.op].reads
        return place < len(given) and reads(head.command.attrs, given, outputs, place, layout, target)

    def _epilogue(self, attrs: FusedAttrs, inputs: Views, y: View) -> Epilogue:
        count = len(attrs.steps[0].operands)
        extras = tuple(bool(_extent(view.shape, y.shape)) for view in inputs[count:])
        instructions, places = translate(attrs.steps[1:], (*(-1 for _ in range(count)), *range(len(extras) + 1)))
        kinds = tuple(view.scalar for view in inputs[count:])
        sums_bytes = attrs.steps[0].command.op in integer_products.ROWS
        return Epilogue(y.scalar, extras, instructions, places[-1], kinds if sums_bytes else ())


def _ending(product: Product, epilogue: Epilogue) -> Generator:
    """The product with an epilogue."""
    if isinstance(product, IntegerSums):
        return IntegerSums(replace(product.problem, epilogue=epilogue))
    return replace(product, epilogue=epilogue)


def _extent(shape: Shape, y: Shape) -> bool | None:
    """True for a value per column of y, False for one value, None for anything else."""
    if all(size == 1 for size in shape):
        return False
    return True if shape[-1] == y[-1] and all(size == 1 for size in shape[:-1]) else None
