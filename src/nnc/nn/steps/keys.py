"""Which program of a model: what it computes, for how many examples and steps, and in what form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Literal, TypeAlias, get_args

from nnc.classes import dataclass
from nnc.errors import UsageError
from nnc.symbolic.passes import QuantizationMode

# What keys and values of earlier tokens are held in: "int8" and "int4" have a scale for each token and head.
CacheType: TypeAlias = Literal["f32", "bf16", "int8", "int4"]


class StepKind(Enum):
    """What a program computes, by the name that `Model.memory` takes."""

    # Members are one object each: looked up at each step, by a hash that is no call of Python's.
    __hash__ = object.__hash__

    # An update by the gradients of a batch.
    TRAIN = "train"
    # Loss and score.
    EVALUATE = "evaluate"
    # The outputs.
    PREDICT = "predict"
    # The outputs, by weights that stay as they are.
    FREEZE = "freeze"
    # Gradients that are added to those of earlier batches.
    BACKWARD = "backward"
    # An update by such sums of gradients.
    APPLY = "apply"
    # Scores of the next tokens.
    GENERATE = "generate"

    @property
    def differentiates(self) -> bool:
        """Whether gradients are taken: layers draw random numbers and renew statistics."""
        return self in (StepKind.TRAIN, StepKind.BACKWARD)

    @property
    def updates(self) -> bool:
        """Whether parameters change."""
        return self in (StepKind.TRAIN, StepKind.APPLY)

    @property
    def sums_gradients(self) -> bool:
        """Whether sums of gradients are written or read."""
        return self in (StepKind.BACKWARD, StepKind.APPLY)


@dataclass(frozen=True, slots=True)
class StepKey:
    """The program of a kind for `batch` examples, whose open axes are of size `length` (0: there is none, or largest).

    With `outputs` it gives the model's outputs behind loss and score. With `padded` some of its places only fill up the
    size, and are left out of loss and score. `quantization` is that of a frozen step, `capacity` how many tokens a
    row of a generation has room for, `cache` what their keys and values are held in, and `pages` how many there are of
    them for all rows (0: each row has its own columns).
    """

    kind: StepKind
    batch: int
    length: int = 0
    outputs: bool = False
    padded: bool = False
    quantization: QuantizationMode | None = None
    capacity: int = 0
    cache: CacheType = "f32"
    pages: int = 0

    @classmethod
    def parse(cls, subject: str, text: str, batch: int, length: int) -> StepKey:
        """The key of a kind by name: "train", or with a form behind it "train+padded", "freeze+weights".

        >>> StepKey.parse("memory", "freeze+weights", 4, 0).quantization
        'weights'
        """
        name, *forms = text.split("+")
        key = cls(step_kind(subject, name, text), batch, length)
        for form in forms:
            if key.kind is StepKind.FREEZE and form in QUANTIZATIONS:
                key = replace(key, quantization=QUANTIZATIONS[form])
            elif key.kind in WITH_LOSS and form == "outputs":
                key = replace(key, outputs=True)
            elif key.kind is StepKind.TRAIN and form == "padded":
                key = replace(key, padded=True)
            else:
                raise _unknown(subject, text)
        return key


QUANTIZATIONS: Mapping[str, QuantizationMode] = {mode: mode for mode in get_args(QuantizationMode)}
WITH_LOSS = (StepKind.TRAIN, StepKind.EVALUATE, StepKind.BACKWARD)


def step_kind(subject: str, name: str, text: str = "") -> StepKind:
    """The kind of this name; UsageError where there is none, which shows the whole `text` that was asked for."""
    for kind in StepKind:
        if kind.value == name:
            return kind
    raise _unknown(subject, text or name)


def _unknown(subject: str, text: str) -> UsageError:
    return UsageError(subject, got=f"kind {text!r}", need=", ".join(kind.value for kind in StepKind))
