"""Adafactor: steps by second moments of which rows and columns alone are kept (Shazeer & Stern 2018).

    1 - β₂ₜ = t^-decline;  ρ = min(rate, 1 / √t) when relative, else rate
    α = max(ε₂, rms(w)) · ρ when scaled, else ρ
    w of two axes or more:  r' = β₂ₜ r + (1 - β₂ₜ) mean over columns of g²;  c' = … mean over rows of g²
                            v = r' c'ᵀ / max(mean(r'), ε₁)
    else:                   v = r' = β₂ₜ r + (1 - β₂ₜ) g², and c is one number that stays
    u = g / √max(v, ε₁²);  w' = w · (1 - rate · decay) - α · u / max(1, rms(u) / clip)

Rows and columns are the last two axes, r and c without the other of them; rms(x) = √(mean of x²). Numbers are those of
torch.optim.Adafactor where relative and scaled, but for its ε₁, which follows the element type.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.arguments import Positive, Rate
from nnc.classes import dataclass
from nnc.core.values.spec import TensorSpec
from nnc.errors import ShapeError
from nnc.ops.optimizer.update import update
from nnc.ops.rules import FLOATS, NUMBERS, Inplace, Specs, check_kinds


@dataclass(frozen=True, slots=True)
class AdafactorAttrs:
    """How fast moments forget less, both ε, what rms(u) is clipped to, weight decay, and what α is made of."""

    decline: Positive = 0.8
    epsilon1: Positive = 2.0**-23
    epsilon2: Positive = 1e-3
    clip: Positive = 1.0
    decay: Rate = 0.0
    relative: bool = True
    scaled: bool = True


def factored_specs(w: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    """r[…, rows] and c[…, columns] of w[…, rows, columns]; r as w, and c one number, of fewer axes than two."""
    if w.rank < 2:
        return w, replace(w, shape=())
    return replace(w, shape=w.shape[:-1]), replace(w, shape=(*w.shape[:-2], w.shape[-1]))


def _infer_adafactor(attrs: AdafactorAttrs, specs: Specs) -> Specs:
    g, w, row, column, *scalars = specs
    check_kinds(FLOATS, g, w, row, column)
    check_kinds(NUMBERS, *scalars)
    states = factored_specs(w)
    if g != w or (row, column) != states or any(spec.shape != () for spec in scalars):
        need = f"a gradient as {w}, states {states[0]} and {states[1]}, scalars for rate and step"
        raise ShapeError("adafactor", got=", ".join(map(str, specs)), need=need)
    return (w, *states)


ADAFACTOR = update(
    "adafactor",
    AdafactorAttrs,
    {"row": "row", "column": "column"},
    counted=True,
    whole=True,
    work=16,
    doc="w' = w - α · u / max(1, rms(u)), u = g / √(r' c'ᵀ / mean(r')): rows and columns of g² (Shazeer & Stern 2018)",
    infer=_infer_adafactor,
    inplace=Inplace(allowed=((1, 0), (2, 1), (3, 2), (0, 0))),
    specs_of=factored_specs,
)
