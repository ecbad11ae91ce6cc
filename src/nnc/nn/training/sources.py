"""What `fit` draws batches from: arrays, data sets, batches and any iterable of pairs, looked at before the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from nnc.core.values.tensor import Tensor
from nnc.errors import ArgumentError, DataError, UsageError
from nnc.nn.data import Batches, BatchSource, DataFrame, DataSet, Examples
from nnc.nn.data.data_set import Columns
from nnc.nn.data.shards import Shards
from nnc.nn.optimization.metrics import Metric, Tally, metrics_of
from nnc.nn.steps.model_step import Values
from nnc.nn.steps.open_sizes import OpenSizes, one_or_all
from nnc.nn.training.training import Passes
from nnc.parallel import RankGroup, joined

Data: TypeAlias = BatchSource | DataSet | Examples | ArrayLike | Iterable[tuple[Values, Values]]
Validation: TypeAlias = DataFrame | DataSet | Examples | tuple[Values, Values]
FIT_FORMS = "fit(batches), fit(frame), fit(data_set, batch_size=…), fit(inputs, targets, batch_size=…) or fit(pairs)"


def source_of(
    sizes: OpenSizes, data: Data, targets: Values | None, batch_size: int | None, seed: int
) -> BatchSource | Passes:
    """Where batches come from: of examples, in an order by `seed`."""
    if isinstance(data, DataSet | Examples):
        if targets is not None:
            raise UsageError("fit", got="a data set beside targets", need="one source", fix=FIT_FORMS)
        _checked(sizes, "fit", data.inputs, data.labels)
        return Batches(data, batch_size or 32, seed=seed)
    if targets is not None and not isinstance(data, BatchSource):
        examples = _checked(sizes, "fit", cast("Values", data), targets)
        return Batches(Examples("arrays", *examples), batch_size or 32, seed=seed)
    if isinstance(data, np.ndarray | Tensor) or not isinstance(data, BatchSource | Iterable):
        raise ArgumentError("fit", got="target=None", need="a target for each example", fix=FIT_FORMS)
    if not (targets is None and batch_size is None):
        raise UsageError("fit", got="batches beside targets or a batch size", need="one source", fix=FIT_FORMS)
    if isinstance(data, Batches):
        _checked(sizes, "fit", data.examples.inputs, data.examples.labels)
    if isinstance(data, BatchSource):
        return data
    return Passes(cast("Iterable[tuple[Values, Values]]", data))


def of_rank(source: BatchSource | Passes, ranks: RankGroup | None) -> BatchSource | Passes:
    """This rank's part of each batch; pairs that somebody else makes are its own already."""
    if ranks is None or isinstance(source, Passes):
        return source
    return Shards(source, joined(ranks).rank, ranks.size)


def together(ranks: RankGroup | None) -> Callable[[bool], bool]:
    """Whether any of the ranks says so: they stop behind the same update."""
    if ranks is None:
        return bool
    return lambda asked: joined(ranks).any(asked=asked)


def parts_of(
    sizes: OpenSizes, data: Data, targets: Values | None, validation: Validation | None, share: float
) -> tuple[Data, Values | None, tuple[Values, Values] | None]:
    """What to train on, its targets, and what to validate with: the last `share` of arrays where that is above 0."""
    if not share:
        return data, targets, _validation(sizes, validation)
    if targets is None or validation is not None or isinstance(data, DataSet | Examples | BatchSource):
        got = "validation_split beside validation_data" if validation is not None else "validation_split without arrays"
        raise UsageError("fit", got=got, need="arrays of inputs and targets", fix="validation_data=(x, y) alone")
    inputs = cast("Values", data)
    examples = sizes.rules_for("fit", inputs)[0].checked_examples("fit", inputs, targets)
    count = len(examples[0][0])
    kept = int(count * (1.0 - share))
    if not 0 < kept < count:
        got = f"validation_split={share} of {count} examples"
        raise DataError("fit", got=got, need="an example to train on, and one to validate with")
    trained, held = (
        [one_or_all(tuple(array[rows] for array in arrays)) for arrays in examples]
        for rows in (slice(kept), slice(kept, None))
    )
    return trained[0], trained[1], (held[0], held[1])


def _validation(sizes: OpenSizes, data: Validation | None) -> tuple[Values, Values] | None:
    """Inputs and targets."""
    if data is None:
        return None
    if isinstance(data, DataFrame):
        data = data.in_memory()
    inputs, targets = (data.inputs, data.labels) if isinstance(data, DataSet | Examples) else data
    validation = _checked(sizes, "validation_data", inputs, targets)
    if not len(validation[0][0] if isinstance(validation[0], tuple) else validation[0]):
        raise DataError("validation_data", got="no examples", need="at least one: a mean is over something")
    return validation


def tried_metrics(metrics: Iterable[str | Metric], sizes: OpenSizes) -> tuple[Metric, ...]:
    """The metrics, each tried on an output and a target of zeros: one that does not fit says so before training."""
    figures = metrics_of(metrics)
    rules = sizes.rules_at(0)
    output, target = rules.outputs[0], rules.target_specs(1)[0]
    Tally(figures).add(np.zeros((1, *output.shape), output.dtype.numpy), np.zeros(target.shape, target.dtype.numpy))
    return figures


def _checked(sizes: OpenSizes, subject: str, inputs: Values, targets: Values) -> tuple[Columns, Columns]:
    rules, _ = sizes.rules_for(subject, inputs)
    examples, labels = rules.checked_examples(subject, inputs, targets)
    return one_or_all(examples), one_or_all(labels)
