"""Keys and values of heads that a generation keeps: written where new tokens stand, held narrow, read by attention.

f32    as they are
bf16   the nearest
int8   round(x / scale), scale[token, head] = max |x| / 127
int4   the same of max |x| / 7, and 8 more: feature d of the first half with d + width / 2 in a byte

Attention that sees a window of the last tokens, and perhaps the first few (sinks), keeps these, and so many more that
every step of new tokens finds what its first one sees, and some may be forgotten again: each token behind the sinks is
written over the one that stood (columns - sinks) before it.

Rows whose texts begin alike may have the same pages of columns: where each row's lie is then an input of the step.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.dtype import BF16, F32, I8, I32, U8
from nnc.core.values.spec import TensorSpec
from nnc.errors import UsageError
from nnc.nn.layers.attention import masked_attention, seen_columns
from nnc.nn.layers.layer import AttentionForm
from nnc.nn.steps.generation_caches import pages_for
from nnc.nn.steps.keys import StepKey
from nnc.nn.steps.model_step import CACHE
from nnc.nn.steps.padding import MOST_STEPS
from nnc.nn.steps.step_graph import StepGraph
from nnc.ops import (
    abs,
    add,
    affine,
    arange_like,
    broadcast_to,
    cached_attention,
    cast,
    concatenate,
    divide,
    floor,
    index_select,
    less,
    maximum,
    multiply,
    reduce_max,
    remainder,
    reshape,
    round,
    scatter,
    subtract,
    where,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.sequence.cached_attention import PAGE
from nnc.symbolic import Symbol

# So many rows of a key head read what is kept as it lies; for more, widening all of it first takes less time.
FEW_ROWS = 16
LARGEST, TINY = {"int8": 127.0, "int4": 7.0}, 1e-30
# Columns beside those of a window: for the tokens of a step, and for as many that are forgotten or read again.
BESIDE_WINDOW = 2 * MOST_STEPS
# Of a number of 4 bits, which is never negative, and how many such numbers there are.
ZERO, NUMBERS = 8.0, 16.0


def columns_kept(form: AttentionForm, capacity: int) -> int:
    """Of so many tokens, the columns that attention of this form keeps."""
    return min(form.sinks + form.window + BESIDE_WINDOW, capacity) if form.window else capacity


@dataclass(frozen=True, slots=True, eq=False)
class PageInputs:
    """Inputs of a step over `count` pages: where the new tokens are written, where a row's pages start.

    Behind all pages is a place that nothing reads: what only fills up a step is written there.
    """

    count: int
    places: Symbol
    starts: Symbol
    columns: Symbol

    @classmethod
    def of(cls, step: StepGraph, key: StepKey) -> PageInputs | None:
        """places[batch · steps], starts[batch, pages of a row], and from these columns[batch · capacity]."""
        if not key.pages:
            return None
        parts = pages_for(key.capacity)
        places = step.input(TensorSpec((key.batch * key.length,), I32), "places")
        starts = step.input(TensorSpec((key.batch, parts), I32), "starts")
        whole = (key.batch, parts, PAGE)
        within = broadcast_to(reshape(arange_like(starts, PAGE, dtype=I32), (1, 1, PAGE)), whole)
        columns = reshape(add(broadcast_to(reshape(starts, (*starts.shape, 1)), whole), within), (key.batch, -1))
        return cls(key.pages, places, starts, reshape(columns[:, : key.capacity], (-1,)))

    @property
    def total(self) -> int:
        """Columns of all pages, and the place behind them."""
        return self.count * PAGE + 1


@dataclass(frozen=True, slots=True, eq=False)
class KeptHeads:
    """What is kept in a step of this key; `carry` maps what is written to what it renews."""

    step: StepGraph
    key: StepKey
    positions: Symbol
    carry: dict[Symbol, Symbol]
    pages: PageInputs | None = None

    def attend(self, path: str, q: Symbol, k: Symbol, v: Symbol, form: AttentionForm) -> Symbol:
        """Attention over what is kept of this layer, k and v of the new tokens among it."""
        room = columns_kept(form, self.key.capacity)
        wrapped = room < self.key.capacity
        if wrapped and self.pages is not None:
            got = f"a window of {form.window} at {path}"
            raise UsageError("prefix", got=got, need="layers that keep all tokens", fix="a context within the window")
        places = self._columns(form.sinks, room) if wrapped else self.positions
        (keys, key_scale), (values, value_scale) = (
            self._extended(f"{CACHE}{path}.{name}", each, room, places) for name, each in (("key", k), ("value", v))
        )
        few = q.shape[1] * (q.shape[2] // k.shape[2]) <= FEW_ROWS
        if few and q.spec.dtype is F32:
            starts = None if self.pages is None else self.pages.starts
            return cached_attention(
                q, keys, values, self.positions, key_scale, value_scale, starts,
                scale=form.scale, window=form.window, cap=form.cap, sinks=form.sinks, wrapped=wrapped,
            )  # fmt: skip
        keys, values = (
            self._widened(self._of_rows(each), None if scale is None else self._of_rows(scale), q)
            for each, scale in ((keys, key_scale), (values, value_scale))
        )
        seen = seen_columns(self.positions, room, form.window, form.sinks, wrapped=wrapped)
        return masked_attention(q, keys, values, seen, form)

    def _of_rows(self, held: Symbol) -> Symbol:
        """The columns of each row, one behind the other: [batch, capacity, …]."""
        if self.pages is None:
            return held
        flat = reshape(held, (held.shape[1], -1))
        return reshape(index_select(flat, self.pages.columns), (self.key.batch, self.key.capacity, *held.shape[2:]))

    def _columns(self, sinks: int, room: int) -> Symbol:
        """Where tokens are written in columns that are wrapped."""
        places = self.positions
        around = remainder(affine(places, 1.0, -sinks), scalar_like(places, room - sinks))
        return where(less(places, scalar_like(places, sinks)), places, affine(around, 1.0, sinks)) if sinks else around

    def _extended(self, name: str, new: Symbol, room: int, places: Symbol) -> tuple[Symbol, Symbol | None]:
        """What is kept by this name with the new tokens' [batch, steps, heads, width] in it, and its scales."""
        if name in self.step.given:
            path = name.removeprefix(CACHE)
            raise UsageError("generate", got=f"{path} kept twice", need="a causal layer applied once")
        scale = None
        if self.key.cache == "bf16":
            new = cast(new, BF16)
        elif self.key.cache in LARGEST:
            largest = maximum(reduce_max(abs(new), -1), scalar_like(new, TINY))
            factors = divide(largest, scalar_like(largest, LARGEST[self.key.cache]))
            spread = broadcast_to(reshape(factors, (*factors.shape, 1)), new.shape)
            whole = round(divide(new, spread))
            new = cast(whole, I8) if self.key.cache == "int8" else self._halved(whole, name.removeprefix(CACHE))
            scale = self._written(f"{name}.scale", factors, room, places)
        shape = (*new.shape[:1], room, *new.shape[2:])
        if self.pages is not None:
            shape = (1, self.pages.total, *new.shape[2:])
        written = self._written(name, reshape(new, (*new.shape[:2], new.shape[2] * new.shape[3])), room, places)
        return reshape(written, shape), scale

    def _halved(self, whole: Symbol, path: str) -> Symbol:
        """Two numbers in a byte."""
        width = whole.shape[-1]
        if width % 2:
            got = f"{path}: heads of {width} features"
            raise UsageError("cache", got=got, need="an even width for int4", fix='cache="int8"')
        low, high = (add(whole[..., part : part + width // 2], scalar_like(whole, ZERO)) for part in (0, width // 2))
        return cast(add(low, multiply(high, scalar_like(high, NUMBERS))), U8)

    def _written(self, name: str, rows: Symbol, room: int, places: Symbol) -> Symbol:
        """Rows [batch, steps, features] put where their tokens stand."""
        if self.pages is not None:
            rows, room, places = reshape(rows, (1, -1, rows.shape[2])), self.pages.total, self.pages.places
        batch, steps, features = rows.shape
        old = self.step.given_input(name, replace(rows.spec, shape=(batch, room, features)))
        new = scatter(old, broadcast_to(reshape(places, (batch, steps, 1)), rows.shape), rows, 1)
        self.carry[new] = old
        return new

    def _widened(self, held: Symbol, scale: Symbol | None, like: Symbol) -> Symbol:
        wide = cast(held, like.spec.dtype)
        if held.spec.dtype is U8:
            high = floor(divide(wide, scalar_like(wide, NUMBERS)))
            halves = subtract(wide, multiply(high, scalar_like(high, NUMBERS))), high
            wide = concatenate([subtract(half, scalar_like(half, ZERO)) for half in halves], -1)
        if scale is None:
            return wide
        return multiply(wide, broadcast_to(reshape(scale, (*scale.shape, 1)), wide.shape))
