"""Checkpoints: everything that decides how training goes on, in one safetensors file.

    model.<path>                 parameters and statistics
    optimizer.<path>.<state>     optimizer state
    metadata "nnc"               JSON: format version, architecture, updates done, where the data stands

The same state gives the same bytes. No time, host or path is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path

from nnc.core.serialize import load_tensors, save_tensors
from nnc.core.tensor import Tensor
from nnc.errors import FormatError
from nnc.nn.data import Batches, BatchState
from nnc.nn.model import Model

VERSION = 1
MAX_COUNT = 2**63
CONTEXT = 18


@dataclass(frozen=True, slots=True)
class Position:
    """How far training has come: updates done and the next batch."""

    updates: int
    batches: BatchState
    batch_size: int


def position_of(model: Model, batches: Batches) -> Position:
    """What a checkpoint must remember beside the tensors."""
    return Position(model.updates, batches.state(), batches.size)


def save_checkpoint(path: Path | str, model: Model, position: Position) -> None:
    """Write the model, its optimizer state and the position; the old file stays until the new one is whole."""
    facts = {"version": VERSION, "architecture": describe(model), "position": asdict(position)}
    save_tensors(path, _tensors(model), {"nnc": json.dumps(facts, sort_keys=True)})


def load_checkpoint(path: Path | str, model: Model) -> Position:
    """Set the model and its optimizer state; FormatError when the file is not a checkpoint of this model."""
    file = load_tensors(path)
    position = _position(path, file.metadata, model)
    wanted = _tensors(model)
    if wanted.keys() != file.tensors.keys():
        raise _foreign(path, f"tensors {_some(wanted.keys() ^ file.tensors.keys())} in only one of file and model")
    for name, tensor in wanted.items():
        if (tensor.shape, tensor.dtype) != (file.tensors[name].shape, file.tensors[name].dtype):
            raise _foreign(path, f"{name} of {file.tensors[name].spec}, not {tensor.spec}")
    for name, tensor in wanted.items():
        tensor.copy_from(file.tensors[name].numpy())
    model.updates = position.updates
    return position


def describe(model: Model) -> str:
    """The architecture as text: layers, input and optimizer, without values."""
    return f"{model.layer!r} on {model.dtype}{list(model.input_shape)} by {model.optimizer!r}"


def _tensors(model: Model) -> dict[str, Tensor]:
    weights = {f"model.{path}": tensor for path, tensor in model.tensors().items()}
    return weights | {f"optimizer.{path}": tensor for path, tensor in model.states.items()}


def read_position(path: Path | str) -> Position:
    """How far the training in the file has come, without a model to load it into."""
    return _facts(path, load_tensors(path).metadata)[1]


def _position(path: Path | str, metadata: Mapping[str, str], model: Model) -> Position:
    architecture, position = _facts(path, metadata)
    wanted = describe(model)
    if architecture != wanted:
        raise _foreign(path, f"one of another model, {_difference(architecture, wanted)!r}")
    return position


def _facts(path: Path | str, metadata: Mapping[str, str]) -> tuple[str, Position]:
    """The architecture and the position that the file states; nothing in a file is taken on trust."""
    try:
        facts = json.loads(metadata["nnc"])
        version, architecture, place = facts["version"], str(facts["architecture"]), facts["position"]
        state = BatchState(**{name: _count(place["batches"][name]) for name in BatchState.__slots__})
        position = Position(_count(place["updates"]), state, _count(place["batch_size"], least=1))
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _foreign(path, "a safetensors file without a checkpoint's facts") from None
    if version != VERSION:
        raise _foreign(path, "a checkpoint of another version of nnc")
    return architecture, position


def _count(value: object, least: int = 0) -> int:
    """`value` if it is an integer that a count can be; ValueError otherwise."""
    if type(value) is not int or not least <= value < MAX_COUNT:
        raise ValueError
    return value


def _difference(got: str, want: str) -> str:
    """`got` from a little before the place where it stops to equal `want`.

    >>> _difference("Sequential(hidden=Dense(64), classes=Dense(10))", "Sequential(hidden=Dense(128))")
    '…tial(hidden=Dense(64), classes=Dense(10))'
    """
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(got, want)))
    start, stop = max(same - CONTEXT, 0), same + 2 * CONTEXT
    return ("…" if start else "") + got[start:stop] + ("…" if stop < len(got) else "")


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


def _foreign(path: Path | str, got: str) -> FormatError:
    return FormatError(
        str(path),
        got=got,
        need="a checkpoint of this model",
        fix="name another file, or build the model it was made of",
    )
