"""A slice of the campaign of threads."""

from __future__ import annotations

import pytest
from tests.fuzz.threads import run_campaign


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_a_slice_of_the_campaign(backend: str) -> None:
    report = run_campaign(800, 5, backend)
    assert report.is_right, report
    assert report.answers >= 800
