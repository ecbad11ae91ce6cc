"""The table that `model.summary()` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HEAD = ("Layer (type)", "Output Shape", "Param #")


def print_table(model: Any, show: Callable[[str], object]) -> None:
    """A row for each layer, and the sums."""
    rows = [HEAD, *[_row(layer) for layer in model.layers]]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    show(f'Model: "{model.name}"')
    for place, row in enumerate(rows):
        name, shape, count = row
        show(f"{name.ljust(widths[0])}  {shape.ljust(widths[1])}  {count.rjust(widths[2])}")
        if not place:
            show("  ".join("─" * width for width in widths))
    trained = sum(weight.spec.elements for weight in model.trainable_weights)
    total = model.count_params()
    size = sum(weight.spec.nbytes for weight in model.weights)
    show(f" Total params: {total:,} ({size / 1024:.2f} KB)")
    show(f" Trainable params: {trained:,}")
    show(f" Non-trainable params: {total - trained:,}")


def _row(layer: Any) -> tuple[str, str, str]:
    kind = type(layer).__name__
    shape = str(layer.output_shape) if getattr(layer, "nodes", True) else "?"
    count = layer.count_params() if hasattr(layer, "count_params") else 0
    return f"{getattr(layer, 'name', kind)} ({kind})", shape, f"{count:,}"
