"""Keys of programs, and what callers may ask for by name."""

from __future__ import annotations

import pytest

from nnc import nn
from nnc.errors import MemoryLimitError, UsageError
from nnc.nn.steps.keys import StepKey, StepKind


@pytest.mark.parametrize("kind", StepKind)
def test_each_kind_has_the_name_that_memory_takes(kind: StepKind) -> None:
    assert StepKey.parse("memory", kind.value, 3, 5) == StepKey(kind, 3, 5)


def test_forms_stand_behind_the_kind() -> None:
    key = StepKey.parse("memory", "train+padded+outputs", 16, 0)
    assert key == StepKey(StepKind.TRAIN, 16, padded=True, outputs=True)
    assert StepKey.parse("memory", "freeze+dynamic", 2, 0) == StepKey(StepKind.FREEZE, 2, quantization="dynamic")


@pytest.mark.parametrize("text", ["", "training", "train+", "train+weights", "freeze+f16", "predict+padded"])
def test_another_name_is_told_with_those_that_there_are(text: str) -> None:
    model = nn.Model(nn.Dense(2), (3,))
    with pytest.raises(UsageError, match="train, evaluate, predict, freeze, backward, apply, generate"):
        model.memory(4, text)


def test_padding_is_asked_of_kinds_that_there_are() -> None:
    model = nn.Model(nn.Dense(2), (3,))
    assert model.padding("freeze") == "freeze steps take sizes as they are"
    with pytest.raises(UsageError, match="kind 'fit'"):
        model.padding("fit")


def test_an_option_that_is_set_counts_for_later_programs() -> None:
    model = nn.Model(nn.Dense(2), (3,), seed=1)
    model.memory_limit = 1
    assert (model.options.memory_limit, model.options.seed) == (1, 1)
    with pytest.raises(MemoryLimitError):
        model.memory(4)
