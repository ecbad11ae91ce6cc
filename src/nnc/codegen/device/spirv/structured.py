"""Structured control flow, found in blocks as the builder writes them: in order, loops closed by their last block.

A loop is entered at its first block and left from its last one or, where that always repeats, from blocks that break to
the block behind it. Other branches are `if`: what comes second is where both go on.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.device.text import ParsedFunction, TextBlock


@dataclass(frozen=True, slots=True)
class SpirvLoop:
    """A loop: its first and last block by number, and the label behind it."""

    header: str
    first: int
    last: int
    exit: str
    breaks: bool


@dataclass(frozen=True, slots=True)
class SpirvFlow:
    """The loops of a function by the label of their first block, and by that of their last one."""

    headers: dict[str, SpirvLoop]
    latches: dict[str, SpirvLoop]

    @classmethod
    def of(cls, function: ParsedFunction) -> SpirvFlow:
        """Find all loops."""
        places = {block.label: place for place, block in enumerate(function.blocks)}
        headers: dict[str, SpirvLoop] = {}
        latches: dict[str, SpirvLoop] = {}
        for place, block in enumerate(function.blocks):
            targets = labels_of(block)
            back = next((label for label in targets if places[label] <= place), None)
            if back is None:
                continue
            others = [label for label in targets if label != back]
            leaves = others[0] if others else function.blocks[place + 1].label
            loop = SpirvLoop(back, places[back], place, leaves, not others)
            headers[back] = latches[block.label] = loop
        return cls(headers, latches)

    def broken(self, place: int, label: str) -> SpirvLoop | None:
        """The loop around a block that a jump to this label leaves."""
        around = (loop for loop in self.headers.values() if loop.breaks and loop.first <= place <= loop.last)
        return next((loop for loop in around if loop.exit == label), None)


def labels_of(block: TextBlock) -> list[str]:
    """Where a block goes on."""
    last = block.instructions[-1]
    return [each.text for each in last.operands if each.kind.element == "label"] if last.opcode == "br" else []
