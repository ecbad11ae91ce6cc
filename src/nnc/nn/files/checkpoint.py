"""Checkpoints: everything that decides how training goes on, in one safetensors file.

    model.<path>                 parameters and statistics
    optimizer.<path>.<state>     optimizer state
    metadata "nnc"               JSON: format version, architecture, updates done, where the data stands, and
                                 sha256 of all this and of the tensors

The same state gives the same bytes. No time, host or path is stored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, is_dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import partial
from itertools import takewhile
from math import inf
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from nnc.arguments import Count, checked
from nnc.classes import dataclass, told
from nnc.core.precautions.shield import Shield
from nnc.core.values.dtype import DType
from nnc.core.values.serialize import TensorFile, checksum, load_tensors, read_metadata, save_tensors
from nnc.core.values.tensor import Tensor
from nnc.errors import DataError, FormatError
from nnc.nn.data import BatchSource, BatchState
from nnc.nn.files.sharded_checkpoint import Held, StoredTensor, held_of, save_parts, stored_in
from nnc.nn.layers.combine import LayerParts
from nnc.nn.layers.functional import Functional
from nnc.nn.model.model import Model
from nnc.nn.optimization.loss_scale import Scaling
from nnc.nn.steps.sharding import ERROR, OWN_ERROR
from nnc.nn.training.training import Passes
from nnc.ops.function import FunctionOperator
from nnc.parallel import all_or_none, joined

VERSION = 4
MAX_COUNT = 2**63
SEAL = "sha256"
CONTEXT = 18
# Names of what sums of gradients in few bits lost.
ERRORS = (f"optimizer.{ERROR}", f"optimizer.{OWN_ERROR}")

Facts = Mapping[str, object]


@checked
@dataclass(frozen=True, slots=True)
class Position:
    """How far training has come: updates done, the next batch, and what optimizers and random layers count.

    `since` is the update at which the optimizer began, `draws` the number of training passes, and `sizes` are the
    examples and steps of programs that are compiled as they are (`Model.padding`). `scaling` is where the scale of the
    loss stands, if it has a rule.
    """

    updates: int
    batches: BatchState
    batch_size: int
    since: int = 0
    draws: int = 0
    sizes: tuple[tuple[int, int], ...] = ()
    scaling: Scaling | None = None


@checked
def position_of(model: Model, batches: BatchSource | Passes) -> Position:
    """What a checkpoint must remember beside the tensors."""
    scaling = None if model.loss_scale is None else model.scaling
    return Position(model.updates, batches.state(), batches.size, model.since, model.draws, model.sizes, scaling)


@checked
def save_checkpoint(
    path: Path | str,
    model: Model,
    position: Position,
    *,
    keep: Count = 1,
    notes: Mapping[str, object] | None = None,
    trained_only: bool = False,
) -> None:
    """Write the model, its optimizer state and the position; the old file stays until the new one is whole.

    With `trained_only` what is frozen is left out, as it comes from elsewhere: adapters are small beside their network.

    With `keep`, so many are kept: `model.safetensors`, the one before as `model.1.safetensors`, and so on. `notes` are
    what the caller wants to know when it reads the file, as JSON: names of classes, statistics of the data.

    Of several ranks the first writes. A model in shards or blocks is saved by all of them together, each what it has
    (`nnc.nn.files.sharded_checkpoint`); where one fails, all raise, and the old checkpoint stays.
    """
    held = _held(model, trained_only)
    facts: Facts = {"version": VERSION, "architecture": describe(model), "position": asdict(position)}
    if notes:
        try:
            json.dumps(notes)
        except (TypeError, ValueError) as error:
            raise DataError("save_checkpoint", got=f"notes: {error}", need="what JSON has") from None
        facts = {**facts, "notes": notes}
    model.between_updates("save", lambda: _write(Path(path), model, facts, held, keep))


def _write(path: Path, model: Model, facts: Facts, held: Mapping[str, Held], keep: int) -> None:
    """In parts where ranks have shards; what all have the same is the first one's to write."""
    mesh, group = model.mesh, model.options.all_ranks
    if mesh is not None and any(each.is_part for each in held.values()):
        save_parts(path, mesh, facts, held, sealed, keep=keep)
    elif group is None or joined(group).rank == 0:
        tensors = {name: each.plain() for name, each in held.items()}
        save_tensors(path, tensors, {"nnc": sealed(facts, tensors)}, keep=keep)


def sealed(facts: Facts, tensors: Mapping[str, Tensor]) -> str:
    """The facts as JSON, with the checksum of them and of the tensors."""
    return json.dumps({**facts, SEAL: _seal(facts, tensors)}, sort_keys=True)


def _seal(facts: Facts, tensors: Mapping[str, Tensor]) -> str:
    return checksum(tensors, json.dumps({name: facts[name] for name in facts if name != SEAL}, sort_keys=True))


@checked
def load_checkpoint(
    path: Path | str, model: Model, *, another_optimizer: bool = False, trained_only: bool = False
) -> Position:
    """Set the model and its optimizer state; FormatError when the file is not a checkpoint of this model.

    With `trained_only` the file was saved so, and what is frozen stays.

    A file of shards may come of another number of ranks, or of none; ranks with a `zero_stage`, or that share
    products, load it together.

    With `another_optimizer` the file may come of another one: state is taken where it is of the same tensors, as when
    only the rate differs; else the optimizer begins anew.
    """
    group = model.options.all_ranks if model.options.sharding.is_parted else None
    work = partial(_load, Path(path), model, another_optimizer, trained_only)
    return work() if group is None else all_or_none(joined(group), "load_checkpoint", work)


def _load(path: Path, model: Model, another_optimizer: bool, trained_only: bool) -> Position:
    file = load_tensors(path)
    position = _position(path, file.metadata, model, another_optimizer)
    stored, wanted, forgotten = _errors_aside(stored_in(path, file), _held(model, trained_only))
    if another_optimizer:
        position, wanted, further = _of_another(model, position, wanted, stored.keys())
        forgotten += further
    elif wanted.keys() != stored.keys():
        raise _foreign(path, f"tensors {_some(wanted.keys() ^ stored.keys())} in only one of file and model")
    for name, each in wanted.items():
        if name not in stored:
            raise _foreign(path, f"no tensor {name}")
        if (each.whole.shape, each.whole.dtype) != (stored[name].spec.shape, stored[name].spec.dtype):
            raise _foreign(path, f"{name} of {stored[name].spec}, not {each.whole}")
        each.values(stored[name])  # a part that is missing or damaged is told before anything is written
    _check_whole(path, file)

    def load() -> None:
        with Shield():
            for name, each in wanted.items():
                each.take(stored[name])
            for tensor in forgotten:
                tensor.clear()
            model.updates, model.since, model.draws = position.updates, position.since, position.draws
            model.sizes = position.sizes
            if model.loss_scale is not None:
                model.scaling = position.scaling or model.loss_scale.start()
            model.accept_interrupted_update()

    model.exclusively(load)
    return position


def _errors_aside(
    stored: dict[str, StoredTensor], wanted: dict[str, Held]
) -> tuple[dict[str, StoredTensor], dict[str, Held], list[Tensor]]:
    """What sums in few bits lost is taken where both have it, and begins at zero otherwise."""
    given = {name: each for name, each in stored.items() if name in wanted or not name.startswith(ERRORS)}
    for name in [name for name in given if name.startswith(f"optimizer.{ERROR}")]:
        given[name] = given[name].on_ranks(wanted[name].whole)
    missing = [name for name in wanted if name.startswith(ERRORS) and name not in given]
    forgotten = [tensor for name in missing if (tensor := wanted[name].tensor) is not None]
    return given, {name: each for name, each in wanted.items() if name not in missing}, forgotten


def _of_another(
    model: Model, position: Position, wanted: dict[str, Held], stored: Collection[str]
) -> tuple[Position, dict[str, Held], list[Tensor]]:
    """Position, tensors to set and tensors to set to zero, where the file's state may be another."""
    state = {name for name in wanted if name.startswith("optimizer.")}
    if state == {name for name in stored if name.startswith("optimizer.")}:
        return position, wanted, []
    weights = {name: tensor for name, tensor in wanted.items() if name not in state}
    return replace(position, since=position.updates), weights, list(model.states.values())


def _check_whole(path: Path | str, file: TensorFile) -> None:
    """FormatError unless the file is, bit by bit, what was written."""
    facts = json.loads(file.metadata["nnc"])
    if facts.get(SEAL) != _seal(facts, file.tensors):
        raise _foreign(path, "a file that was damaged or changed: its checksum is another")


def describe(model: Model) -> str:
    """The architecture as text: layers, input and optimizer, without values."""
    return f"{_network(model)}{text_of(model.optimizer)}"


def _network(model: Model) -> str:
    """All of it but the optimizer."""
    first, *others = model.inputs
    inputs = " and ".join([f"{model.dtype}{list(first.shape)}", *map(str, others)])
    return f"{text_of(model.layer)} on {inputs} by "


def text_of(value: object) -> str:
    """What a layer or an optimizer is made of: `Dense(units=64, bias=True)`.

    Not `repr`: that of dataclasses says `...` for ever once an interrupt has broken it off, and that of other objects
    says where they lie.

    >>> from nnc.nn.optimization.schedules import Cosine
    >>> text_of(Cosine(0.1, 30))
    'Cosine(start=0.1, steps=30, end=0.0)'
    """
    match value:
        case LayerParts():
            fields: Iterable[tuple[str, object]] = value.parts
        case Functional():
            fields = [(call.name, (call.layer, call.sources)) for call in value.calls]
            fields.append(("outputs", value.sources))
        case DType():
            return value.name
        case type() | FunctionType() | FunctionOperator():
            return value.__qualname__
        case tuple() | list():
            return "(" + ", ".join(map(text_of, value)) + ")"
        case Mapping():
            fields = [(text_of(key), part) for key, part in value.items()]
        case _ if is_dataclass(value):
            own = [field for field in dataclass_fields(value) if field.repr and told(value, field)]
            fields = [(field.name, getattr(value, field.name)) for field in own]
        case _ if type(value).__repr__ is object.__repr__:
            fields = sorted(getattr(value, "__dict__", {}).items())
        case _:
            return repr(value)
    return f"{type(value).__qualname__}(" + ", ".join(f"{name}={text_of(part)}" for name, part in fields) + ")"


def _held(model: Model, trained_only: bool) -> dict[str, Held]:
    """What a checkpoint has of a model, by name."""
    held = held_of(model)
    weights = {path: row for path, row in model.specs.items() if row.trainable or not trained_only}
    named = {f"model.{path}": held[path] for path in weights}
    return named | {f"optimizer.{name}": each for name, each in held.items() if name not in model.specs}


@checked
def read_position(path: Path | str) -> Position:
    """How far the training in the file has come, without a model to load it into."""
    return _facts(path, read_metadata(path))[1]


@checked
def read_notes(path: Path | str) -> dict[str, object]:
    """The notes in the file; empty where there are none."""
    file = load_tensors(path)
    _facts(path, file.metadata)
    _check_whole(path, file)
    notes = json.loads(file.metadata["nnc"]).get("notes", {})
    return notes if isinstance(notes, dict) else {}


def _position(path: Path | str, metadata: Mapping[str, str], model: Model, another_optimizer: bool) -> Position:
    architecture, position = _facts(path, metadata)
    wanted = describe(model)
    if architecture != wanted and not (another_optimizer and architecture.startswith(_network(model))):
        raise _foreign(path, f"one of another model, {_difference(architecture, wanted)!r}")
    return position


def _facts(path: Path | str, metadata: Mapping[str, str]) -> tuple[str, Position]:
    """The architecture and the position that the file states; nothing in a file is taken on trust."""
    try:
        facts = json.loads(metadata["nnc"])
        version, architecture, place = facts["version"], str(facts["architecture"]), facts["position"]
        state = BatchState(**{name: _count(place["batches"][name]) for name in BatchState.__slots__})
        sizes = tuple((_count(batch, least=1), _count(length)) for batch, length in place["sizes"])
        further = (_count(place["since"]), _count(place["draws"]), sizes, _scaling(place["scaling"]))
        position = Position(_count(place["updates"]), state, _count(place["batch_size"], least=1), *further)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _foreign(path, "a safetensors file without a checkpoint's facts") from None
    if version != VERSION:
        raise _foreign(path, "a checkpoint of another version of nnc")
    return architecture, position


def _scaling(value: object) -> Scaling | None:
    """What a file states of the scale of the loss; ValueError or TypeError unless that can be."""
    if value is None:
        return None
    scaling = Scaling(**cast("dict[str, Any]", value))
    if not (isinstance(scaling.scale, float) and 0.0 < scaling.scale < inf):
        raise ValueError
    return Scaling(scaling.scale, _count(scaling.passes))


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
