"""What a run of the tests left out, in a line: how many, and how many for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

PREFIX = "Skipped: "


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """As it was given, without the place."""
    return report.longrepr[2].removeprefix(PREFIX) if isinstance(report.longrepr, tuple) else str(report.longrepr)


def told(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> str:
    """`skipped: 3; 2: no chromium on this machine; 1: no conversion of f16 here`, most first."""
    reasons = Counter(map(reason_of, reports))
    return "; ".join([f"skipped: {reasons.total()}", *(f"{count}: {text}" for text, count in reasons.most_common())])
