"""What the system says of the first processor."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from nnc.core.running import processor

TOLD = (
    "processor\t: 0\nmodel name\t: First: of its kind \nFeatures\t: fp asimd\n\nprocessor\t: 1\nmodel name\t: Second\n"
)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "PROCESSORS", place)
    monkeypatch.setattr(processor, "processor_facts", processor.processor_facts.__wrapped__)
    return place


def test_the_first_processor_is_told_of(told: Path) -> None:
    told.write_text(TOLD)
    assert processor.processor_facts() == {
        "processor": "0", "model name": "First: of its kind", "features": "fp asimd",
    }  # fmt: skip
    assert processor.processor_name() == "First: of its kind"


def test_python_names_a_processor_that_the_system_does_not_tell_of(told: Path) -> None:
    assert processor.processor_facts() == {}
    assert processor.processor_name() == (platform.processor() or platform.machine())
