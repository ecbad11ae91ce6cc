"""python -m tests.conformance.level ROW: the row of this number of every third operator, LLVM against the reference.

Numbers begin anew behind an operator's last row; 0, 1 and 2 together meet every operator.

For a process whose NNC_LLVM_CPU names a level below the processor's own, which one process can choose but once.
"""

from __future__ import annotations

import sys

from tests.conformance.cases import CASES, Case
from tests.conformance.runs import BACKENDS, REFERENCE, check_agreement, refusals, run

from nnc.core.values.dtype import DType
from nnc.ops.rules import infer


def compare(case: Case, dtype: DType) -> None:
    results = infer(case.op, case.attrs, case.specs(dtype))
    wanted = run(REFERENCE, case, dtype, "contiguous", ())
    got = run(BACKENDS["llvm"], case, dtype, "contiguous", ())
    for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
        check_agreement(one, other, results[index].dtype, f"{case}, {dtype}, output {index}")


def main(number: int) -> None:
    claimed: dict[str, list[Case]] = {}
    for case in CASES:
        if not refusals(BACKENDS["llvm"], case).get(case.dtypes[0], "claimed"):
            claimed.setdefault(case.op.name, []).append(case)
    rows = [cases[number % len(cases)] for cases in [*claimed.values()][number % 3 :: 3]]
    for case in rows:
        compare(case, case.dtypes[0])
    print(f"{len(rows)} rows agree")


if __name__ == "__main__":
    main(int(sys.argv[1]))
