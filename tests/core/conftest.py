"""What several test modules of this folder use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnc.core.running.stream import Stream


@pytest.fixture
def stream() -> Iterator[Stream]:
    """A stream that ends with its test."""
    with Stream("test") as made:
        yield made
