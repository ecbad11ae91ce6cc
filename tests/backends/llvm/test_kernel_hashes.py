"""The source text of every kernel is as recorded: a change that is meant to change no kernel changes no hash.

After a change that is meant to change kernels, write the record anew and look at which rows differ:

    python -m tests.backends.llvm.test_kernel_hashes
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.cases import CASES, Case

from nnc.codegen.frame.row import view_of
from nnc.codegen.frame.written import outline, write
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.table import ROWS
from nnc.ops.rules import infer

RECORD = Path(__file__).parent / "kernel_hashes.txt"
DIGITS = 12
TARGETS = (
    TargetDescription("x86_64-unknown-linux-gnu", "x86-64-v4", "", 512, 32, fused=True),
    TargetDescription("x86_64-unknown-linux-gnu", "x86-64-v3", "", 256, 16, fused=True, in_place=False),
)


def source(case: Case, target: TargetDescription) -> str | None:
    """The kernel of a row for the first element type that is claimed."""
    row = ROWS.get(case.op)
    # Products read the blocks that their target wants, which no row has for all targets.
    if row is None or any(spec is not None and spec.plain is not spec for spec in case.specs(case.dtypes[0])):
        return None
    for dtype in case.dtypes:
        inputs = [spec for spec in case.specs(dtype) if spec is not None]
        results = infer(case.op, case.attrs, case.specs(dtype))
        if not row.refuse(case.attrs, inputs, results):
            views = [view_of(spec) for spec in inputs], [view_of(spec) for spec in results]
            generator = row.generate(case.attrs, *views)
            text, written = write(generator, target, "kernel")
            sized = written.at(outline(generator, target)[1])
            assert sized is not None
            words = [str(sized.words)] if sized.words else []
            return "\n".join([text, *map(str, sized.phases), str(generator.workspace(target)), *words])
    return None


def lines() -> Iterator[str]:
    """One line per row of the conformance table: its name and the hash."""
    for case in CASES:
        texts = [text for target in TARGETS if (text := source(case, target)) is not None]
        if texts:
            digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
            yield f"{case}: {digest[:DIGITS]}"


def test_kernels_are_as_recorded() -> None:
    found, recorded = sorted(lines()), RECORD.read_text(encoding="utf-8").splitlines()
    assert sorted(set(found) ^ set(recorded)) == []


if __name__ == "__main__":
    RECORD.write_text("\n".join(sorted(lines())) + "\n", encoding="utf-8")
