"""The gradient of attention by groups of threads, without the matrix of scores in memory.

    p = e^(s - lse),  t = g v^T,  dots = sum_e g y,  z = scale · p · (t - dots)
    q' = z k          k' = z^T q          v' = p^T g

Rows of q' are items of the first phase, which go through the tiles of columns; columns of k' and v' are those of the
second, which go through the heads that share them and their tiles of rows: each sum has one owner and one order. Both
compute scores anew. q' waits in the workspace, as it may lie over q; the last phase writes it. Operands: g, q, k, v, y,
lse, a mask if there is one, q', k', v', the workspace.
"""

from __future__ import annotations

from collections.abc import Callable

from nnc.classes import dataclass
from nnc.codegen.device.groups.attentions.gradient_tiles import GradientTiles, RowsOf, Totals
from nnc.codegen.device.groups.attentions.score_masks import ScoreMask
from nnc.codegen.device.groups.shared_memory import thread_of
from nnc.codegen.device.groups.tiles import SIDE, THREADS
from nnc.codegen.device.preamble import PTX_TRIPLE
from nnc.codegen.frame.kernel import Generator, PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.frame.widened import Widened
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import F32, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.sequence.attention import Attention
from nnc.core.values.derived import known

# Rows and columns of a thread in a tile: where a group has 48 KiB of memory, and 16.
SHARE, FEW_SHARE = 4, 2
MOST_FEATURES = 128
# Places of operands.
G, Q, K, V, Y, LSE, MASK = range(7)

Write = Callable[[Value], None]


@dataclass(frozen=True, slots=True)
class GroupAttentionGradient:
    """The kernel of a problem whose operands, and results, have elements of these types."""

    problem: Attention
    inputs: tuple[Scalar, ...]
    results: tuple[Scalar, ...]
    share: int

    threads, paired = THREADS, False

    @classmethod
    def of(cls, problem: Attention, target: TargetDescription) -> GroupAttentionGradient | None:
        """The kernel of f32."""
        masks = () if problem.mask is None else (problem.mask,)
        return cls._fitting(problem, (*(F32,) * MASK, *masks), (F32,) * 3, target)

    @classmethod
    def of_widened(cls, widened: Widened, target: TargetDescription) -> GroupAttentionGradient | None:
        """That of operands of 16 bits, which are read as they are."""
        inputs, results = (tuple([operand.stored for operand in part]) for part in (widened.inputs, widened.results))
        return cls._fitting(widened.inner, inputs, results, target)

    @classmethod
    def _fitting(
        cls, p: Generator, inputs: tuple[Scalar, ...], results: tuple[Scalar, ...], target: TargetDescription
    ) -> GroupAttentionGradient | None:
        if not isinstance(p, Attention) or not p.gradient or p.scalar != F32 or not target.threads:
            return None
        sizes = (p.batch, p.rows, p.columns, p.heads, p.groups, *p.mask_strides)
        if not all(map(known, sizes)) or max(p.features, p.values) > MOST_FEATURES or min(p.rows, p.columns) < SIDE:
            return None
        return cls(p, inputs, results, SHARE if target.triple == PTX_TRIPLE else FEW_SHARE)

    @property
    def masked(self) -> int:
        """1 where there is a mask."""
        return len(self.inputs) - MASK

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """q' into the workspace; k' and v'; q' from there."""
        p, side = self.problem, SIDE * self.share
        blocks, panels = ceiling(p.rows, side), ceiling(p.columns, side)
        work = p.batch * p.heads * p.rows * p.columns / (1 + p.causal) * (p.features + p.values)
        moved = ceiling(p.batch * p.rows * p.heads * p.features, THREADS)
        return (
            self._phase(module, f"{name}_rows", p.batch * p.heads * blocks, 1.5 * work, _RowsWriter),
            self._phase(module, f"{name}_columns", p.batch * p.groups * panels, 2 * work, _ColumnsWriter),
            self._phase(module, f"{name}_write", moved, moved * THREADS, _moving),
        )

    def _phase(
        self,
        module: Module,
        name: str,
        items: int,
        work: float,
        writing: Callable[[GroupAttentionGradient, PhaseWriter], Write],
    ) -> Phase:
        with phase(module, name) as w:
            write = writing(self, w)
            with w.b.loop(w.begin, w.end) as item:
                write(item)
        return Phase(name, items, nanoseconds(module.target, F32, work))


def _moving(kernel: GroupAttentionGradient, w: PhaseWriter) -> Write:
    """q' as it is stored, an element of each thread."""
    b, p, thread = w.b, kernel.problem, thread_of(w.b)
    result = MASK + kernel.masked

    def write(item: Value) -> None:
        index = item * THREADS + thread
        with b.when(b.compare("<", index, p.batch * p.rows * p.heads * p.features)):
            value = b.load(w.argument(result + 3), index, Type(F32))
            b.store(b.cast(value, kernel.results[0]), w.argument(result), index)

    return write


class _TileWriter:
    """Weights and slopes of a tile of scores, whose rows are `q` and whose columns are `k`."""

    def __init__(self, kernel: GroupAttentionGradient, w: PhaseWriter) -> None:
        self.kernel, self.p, self.w, self.b = kernel, kernel.problem, w, w.b
        self.tiles = GradientTiles.of(w.b, kernel.share, max(self.p.features, self.p.values))

    def rows(self, operand: int, batch: Value, head: Value, first: Value) -> RowsOf:
        """Those of g, q, k, v or y, or of a result in their place, of a head."""
        p = self.p
        heads, count = (p.groups, p.columns) if operand in (K, V) else (p.heads, p.rows)
        size = p.features if operand in (Q, K) else p.values
        return self._rows(operand, self.kernel.inputs[operand], (heads, count, size), (batch, head, first))

    def results(self, operand: int, batch: Value, head: Value, first: Value) -> RowsOf:
        """Where the gradient of q, k or v goes: that of q into the workspace."""
        p, place = self.p, MASK + self.kernel.masked + (3 if operand == Q else operand - Q)
        heads, count = (p.heads, p.rows) if operand == Q else (p.groups, p.columns)
        scalar = F32 if operand == Q else self.kernel.results[operand - Q]
        size = p.values if operand == V else p.features
        return self._rows(place, scalar, (heads, count, size), (batch, head, first))

    def _rows(
        self, place: int, scalar: Scalar, sizes: tuple[int, int, int], where: tuple[Value, Value, Value]
    ) -> RowsOf:
        (heads, count, size), (batch, head, first) = sizes, where
        start = (batch * (count * heads) + head) * size
        return RowsOf(self.b.offset(self.w.argument(place), start, scalar), scalar, heads * size, size, first, count)

    def weights(self, batch: Value, head: Value, q: RowsOf, k: RowsOf) -> Totals:
        """p of this thread's rows and columns; 0 where a row does not see a column, and outside."""
        b, p, tiles = self.b, self.p, self.tiles
        kind = self.kernel.inputs[MASK] if self.kernel.masked else None
        mask = ScoreMask.of(self.w, p, kind, batch, head, MASK, 1.0)
        totals = tiles.crossed(q, k)
        start = (batch * p.heads + head) * p.rows
        row, column = q.first + tiles.places[0], k.first + tiles.places[1]
        for down, sums in enumerate(totals):
            line = row + down
            shift = b.load(self.w.argument(LSE), start + b.least(line, p.rows - 1), Type(self.kernel.inputs[LSE]))
            # Columns behind this one are not seen.
            end = b.least(line + (1 + p.columns - p.rows), p.columns) if p.causal else b.constant(p.columns)
            for across, total in enumerate(sums):
                score = total.get() * p.scale
                if mask is not None:
                    score = mask.applied(b, score, line, column + across)
                seen = b.both(b.compare("<", line, p.rows), b.compare("<", column + across, end))
                total.set(b.choose(seen, mathematics.decay(b, score - shift), 0.0))
        return totals

    def slopes(self, weights: Totals, dots: list[Value], g: RowsOf, v: RowsOf) -> Callable[[int, int], Value]:
        """z of this thread's rows and columns."""
        totals = self.tiles.crossed(g, v)

        def slope(down: int, across: int) -> Value:
            return weights[down][across].get() * (totals[down][across].get() - dots[down]) * self.p.scale

        return slope


class _RowsWriter(_TileWriter):
    """An item is some rows of a head."""

    def __call__(self, item: Value) -> None:
        """z k of all columns that they see."""
        b, p, tiles = self.b, self.p, self.tiles
        blocks = ceiling(p.rows, tiles.side)
        # The last rows see most where attention is causal: they come first.
        place, first = item // blocks, (blocks - 1 - item % blocks) * tiles.side
        batch, head = place // p.heads, place % p.heads
        group = head // (p.heads // p.groups)
        g, q, y = (self.rows(operand, batch, head, first) for operand in (G, Q, Y))
        dots, totals = tiles.dots(g, y), tiles.zeros(p.features)
        end = b.least(first + (tiles.side + p.columns - p.rows), p.columns) if p.causal else b.constant(p.columns)
        with b.loop(0, end, tiles.side) as column:
            k, v = (self.rows(operand, batch, group, column) for operand in (K, V))
            weights = self.weights(batch, head, q, k)
            tiles.keep(self.slopes(weights, dots, g, v), turned=True)
            tiles.weigh(k, totals)
        tiles.write(totals, self.results(Q, batch, head, first))


class _ColumnsWriter(_TileWriter):
    """An item is some columns of a head of k and v."""

    def __call__(self, item: Value) -> None:
        """z^T q and p^T g of all rows that see them, of all heads that share them."""
        b, p, tiles = self.b, self.p, self.tiles
        panels, repeats = ceiling(p.columns, tiles.side), p.heads // p.groups
        place, first = item // panels, item % panels * tiles.side
        batch, group = place // p.groups, place % p.groups
        k, v = (self.rows(operand, batch, group, first) for operand in (K, V))
        by_k, by_v = tiles.zeros(p.features), tiles.zeros(p.values)
        hidden = b.greatest(first - (p.columns - p.rows), 0) if p.causal else b.constant(0)
        with (
            b.loop(0, repeats) as repeat,
            b.loop(hidden // tiles.side * tiles.side, p.rows, tiles.side) as row,
        ):
            head = group * repeats + repeat
            g, q, y = (self.rows(operand, batch, head, row) for operand in (G, Q, Y))
            dots, weights = tiles.dots(g, y), self.weights(batch, head, q, k)
            tiles.keep(lambda down, across: weights[down][across].get(), turned=False)
            tiles.weigh(g, by_v)
            tiles.keep(self.slopes(weights, dots, g, v), turned=False)
            tiles.weigh(q, by_k)
        tiles.write(by_k, self.results(K, batch, group, first))
        tiles.write(by_v, self.results(V, batch, group, first))
