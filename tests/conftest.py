"""What holds for the whole run."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no collection of garbage looks at it again, for half a second each time."""
    gc.freeze()
