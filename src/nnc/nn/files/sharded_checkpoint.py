"""Checkpoints of models in shards: each rank writes what it has, and any number of ranks, or one, reads it.

    model.safetensors            what all ranks have the same, position and facts, and the names of the parts
    model.parts/<hash>.<rank>-of-<ranks>.safetensors      blocks of what is split, and shards of those, flat

Parts are named by what is in them and never written over. The first file takes the place of the old one when all parts
are on disk, so that at every moment there is a whole checkpoint; parts that none names any more are removed then.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.replacement import make_folder
from nnc.core.values.dtype import dtype_of
from nnc.core.values.serialize import TensorFile, checksum, load_tensors, read_metadata, save_tensors
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, UsageError
from nnc.nn.layers.layer import ParameterSpec
from nnc.nn.model.model import Model
from nnc.nn.steps.training_steps import optimizers_of
from nnc.parallel import Mesh, RankGroup, all_or_none, joined
from nnc.parallel.block_operators import BlockPlace
from nnc.parallel.tensor_shards import shard_size

PARTS = "parts"
# Names come from a file: they lead nowhere else.
FOLDER = re.compile(rf"[^/\\\0]+\.{PARTS}")
DIGEST = re.compile("[0-9a-f]{64}")

Facts = Mapping[str, object]
Seal = Callable[[Facts, Mapping[str, Tensor]], str]


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor as this process has it, of a `whole` one: all of it, its block, or a flat shard of either.

    `shard` and `block` are pairs of a rank and how many there are, the block along the axis of `place`. Of a pipeline's
    tensors those of other stages are None.
    """

    tensor: Tensor | None
    whole: TensorSpec
    shard: tuple[int, int] = (0, 1)
    place: BlockPlace | None = None
    block: tuple[int, int] = (0, 1)
    stage: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether others have the rest."""
        return self.shard[1] > 1 or self.place is not None or self.stage is not None

    def is_written(self, data: int, tensor: int) -> bool:
        """Whether the rank at this place of the mesh writes it: of several that have the same the first."""
        has = self.tensor is not None
        return has and (self.shard[1] > 1 or not data) and (self.place is not None or not tensor)

    @property
    def layout(self) -> StoredLayout:
        """How it lies in parts."""
        axis, parts = (None, 1) if self.place is None else (self.place.axis, self.place.parts)
        return StoredLayout(self.whole, self.shard[1], axis, self.block[1], self.stage or 0, parts)

    def plain(self) -> Tensor:
        """The whole tensor, of a process that has all of it."""
        assert self.tensor is not None
        return self.tensor if self.tensor.shape == self.whole.shape else self.tensor.reshape(self.whole.shape)

    def part(self) -> Tensor:
        """What is written: a block as it is, a shard flat."""
        assert self.tensor is not None
        return self.tensor if self.shard[1] == 1 else self.tensor.reshape((self.tensor.spec.elements,))

    def take(self, stored: StoredTensor) -> None:
        """The values from a file."""
        if self.tensor is not None:
            self.tensor.copy_from(self.values(stored))

    def values(self, stored: StoredTensor) -> NDArray[Any]:
        """What of a stored tensor is ours, with zeros behind the end; of what lies there whole no copy."""
        if self.tensor is None:
            return np.empty(0, self.whole.dtype.numpy)
        flat, most, size = stored.flat, self.whole.elements, self.tensor.spec.elements
        if self.place is not None:
            whole = flat(0, most).reshape(self.whole.shape)
            stored = StoredTensor.of(Tensor.from_numpy(self.place.cut(whole, self.block[0])))
            flat, most = stored.flat, stored.spec.elements
        begin, end = (min((self.shard[0] + further) * size, most) for further in (0, 1))
        values = flat(begin, end)
        if values.size < size:
            values = np.concatenate([values, np.zeros(size - values.size, values.dtype)])
        return values.reshape(self.tensor.shape)


@dataclass(frozen=True, slots=True)
class StoredLayout:
    """How a tensor lies in files: in so many shards of each of so many blocks along an axis, which has `parts`."""

    whole: TensorSpec
    shards: int
    axis: int | None
    blocks: int
    stage: int = 0
    parts: int = 1

    @property
    def place(self) -> BlockPlace | None:
        """Where blocks lie in the whole."""
        return None if self.axis is None else BlockPlace(RankGroup(self.blocks), self.axis, self.parts)

    @property
    def block(self) -> TensorSpec:
        """What shards are of."""
        return self.whole if self.place is None else self.place.block(self.whole)

    def written(self) -> list[object]:
        """As JSON."""
        sizes = [self.shards, self.axis, self.blocks, self.stage, self.parts]
        return [self.whole.dtype.name, [*self.whole.shape], *sizes]

    @classmethod
    def read(cls, row: Any) -> StoredLayout:  # noqa: ANN401  # JSON
        """Of JSON; ValueError and the like for anything else."""
        kind, shape, shards, axis, blocks, stage, parts = row
        whole = TensorSpec(tuple(shape), dtype_of(kind))
        if min(shards, blocks, parts) < 1 or stage < 0 or not (axis is None or 0 <= axis < whole.rank):
            raise ValueError
        if parts > 1 and (axis is None or whole.shape[axis] % parts):
            raise ValueError
        return cls(whole, int(shards), axis, int(blocks), int(stage), int(parts))

    def part(self, shard: int, block: int, mesh: tuple[int, int]) -> int:
        """The number of the part that has a shard of a block, of ranks along `tensor` and `pipe`."""
        columns, stages = mesh
        return (shard * columns + block) * stages + self.stage

    def fits(self, mesh: tuple[int, int], parts: int) -> bool:
        """Whether so many parts can have it."""
        columns, stages = mesh
        last = self.part(self.shards - 1, self.blocks - 1, mesh)
        return self.blocks <= columns and self.stage < stages and last < parts


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file: what it is, and its elements from one place to another."""

    spec: TensorSpec
    flat: Callable[[int, int], NDArray[Any]]

    def on_ranks(self, whole: TensorSpec) -> StoredTensor:
        """What sums over so many ranks lost, [ranks, …], for another number of them: the first takes all of it."""
        if self.spec.shape[1:] != whole.shape[1:] or self.spec.shape == whole.shape:
            return self
        rows = self.flat(0, self.spec.elements).reshape(self.spec.shape)
        values = np.zeros(whole.shape, whole.dtype.numpy)
        values[0] = rows.sum(0)
        return StoredTensor(whole, lambda begin, end: values.reshape(-1)[begin:end])

    @classmethod
    def of(cls, tensor: Tensor) -> StoredTensor:
        """One that lies there whole."""
        return cls(tensor.spec, lambda begin, end: tensor.numpy().reshape(-1)[begin:end])


def held_of(model: Model) -> dict[str, Held]:
    """Parameters, statistics and states of the optimizer, by path, as this process has them."""
    sharding, specs, group = model.options.sharding, model.specs, model.options.ranks
    shard = (0, 1) if group is None or not sharding.stage else (joined(group).rank, group.size)

    def held(row: ParameterSpec, tensor: Tensor | None, whole: TensorSpec, *, in_shards: bool) -> Held:
        own, stage = shard if in_shards else (0, 1), None if sharding.pipe is None else row.stage
        if row.place is None or not sharding.is_block(row) or whole.shape != row.spec.shape:
            return Held(tensor, whole, own, stage=stage)
        return Held(tensor, whole, own, row.place, (joined(row.place.group).rank, row.place.group.size), stage)

    tensors = model.tensors()
    rows = {path: held(row, tensors.get(path), row.spec, in_shards=sharding.splits(row)) for path, row in specs.items()}
    for path, part in optimizers_of(model.optimizer, specs).items():
        for name, whole in part.state_specs(specs[path].spec).items():
            state = model.states.get(f"{path}.{name}")
            rows[f"{path}.{name}"] = held(specs[path], state, whole, in_shards=sharding.stage > 0)
    if group is not None and sharding.compress is not None:
        place = (joined(group).rank, group.size)
        trained = [specs[path] for path in optimizers_of(model.optimizer, specs)]
        wholes = sharding.error_specs(trained, whole=True)
        rows |= {name: Held(model.errors[name], whole, place) for name, whole in wholes.items()}
    return rows


def save_parts(path: Path, mesh: Mesh, facts: Facts, held: Mapping[str, Held], seal: Seal, *, keep: int) -> None:
    """Write our part, and once all ranks have, the file that names them; every rank calls it."""
    ranks = joined(RankGroup(mesh.size))
    data, column, _ = mesh.place(ranks.rank)
    parted = {name: each for name, each in held.items() if each.is_part}
    own = {name: each.part() for name, each in parted.items() if each.is_written(data, column)}
    same = {name: each.plain() for name, each in held.items() if not each.is_part}
    folder = _folder(path)

    def write_part() -> str:
        make_folder(folder)
        digest = checksum(own)
        save_tensors(folder / _part(digest, ranks.rank, ranks.size), own)
        return digest

    digest = all_or_none(ranks, "save_checkpoint", write_part)
    rows = ranks.all_gather(np.frombuffer(digest.encode(), np.uint8)[None])
    wholes = {name: each.layout.written() for name, each in parted.items()}
    digests = [row.tobytes().decode() for row in rows]
    parts = {"folder": folder.name, "digests": digests, "mesh": [mesh.tensor, mesh.pipe], "wholes": wholes}

    def write_names() -> None:
        if ranks.rank == 0:
            save_tensors(path, same, {"nnc": seal({**facts, PARTS: parts}, same)}, keep=keep)
            _remove_unnamed(path, folder, keep)

    all_or_none(ranks, "save_checkpoint", write_names)


def stored_in(path: Path, file: TensorFile) -> dict[str, StoredTensor]:
    """All tensors of a checkpoint, in parts or not; FormatError where parts are missing or are not what they were."""
    stored = {name: StoredTensor.of(tensor) for name, tensor in file.tensors.items()}
    parts = _facts(file.metadata).get(PARTS)
    if parts is None:
        return stored
    try:
        digests = [str(digest) for digest in parts["digests"]]
        folder = str(parts["folder"])
        if not FOLDER.fullmatch(folder):
            raise ValueError
        if not digests or not all(DIGEST.fullmatch(digest) for digest in digests):
            raise ValueError
        columns, stages = parts["mesh"]
        mesh = (int(columns), int(stages))
        layouts = {str(name): StoredLayout.read(row) for name, row in parts["wholes"].items()}
        if not all(layout.fits(mesh, len(digests)) for layout in layouts.values()):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError, UsageError):
        raise _damaged(path, "names of parts that cannot be read") from None
    pieces = _Pieces(path, path.parent / folder, digests, mesh)
    return stored | {name: StoredTensor(layout.whole, pieces.of(name, layout)) for name, layout in layouts.items()}


class _Pieces:
    """The parts of a checkpoint of ranks along `tensor` and `pipe`, each opened and checked when it is first read."""

    def __init__(self, path: Path, folder: Path, digests: list[str], mesh: tuple[int, int]) -> None:
        self._path, self._folder, self._digests, self._mesh = path, folder, digests, mesh
        self._open: dict[int, Mapping[str, Tensor]] = {}

    def of(self, name: str, layout: StoredLayout) -> Callable[[int, int], NDArray[Any]]:
        """The elements of a tensor, of shards as far as they are asked for, of blocks all."""
        place = layout.place
        if place is None:
            return lambda begin, end: self._flat(name, layout, 0, begin, end)
        elements, size = layout.block.elements, layout.whole.shape[place.axis]

        def flat(begin: int, end: int) -> NDArray[Any]:
            flats = [self._flat(name, layout, block, 0, elements) for block in range(layout.blocks)]
            whole = place.whole([part.reshape(layout.block.shape) for part in flats], size)
            return np.ascontiguousarray(whole).reshape(-1)[begin:end]

        return flat

    def _flat(self, name: str, layout: StoredLayout, block: int, begin: int, end: int) -> NDArray[Any]:
        spec = layout.block
        size = shard_size(spec.elements, layout.shards)
        pieces = [np.empty(0, spec.dtype.numpy)]
        for shard in range(begin // size, -(-end // size)) if size else ():
            first, last = max(begin - shard * size, 0), min(end - shard * size, size)
            shape = (size,) if layout.shards > 1 else spec.shape
            piece = self._piece(layout.part(shard, block, self._mesh), name, replace(spec, shape=shape))
            pieces.append(piece.reshape(-1)[first:last])
        return np.concatenate(pieces)

    def _piece(self, rank: int, name: str, spec: TensorSpec) -> NDArray[Any]:
        if rank not in self._open:
            digest = self._digests[rank]
            place = self._folder / _part(digest, rank, len(self._digests))
            tensors = load_tensors(place).tensors
            if checksum(tensors) != digest:
                raise _damaged(place, "a part that was damaged or changed: its checksum is another")
            self._open[rank] = tensors
        tensor = self._open[rank].get(name)
        if tensor is None or tensor.shape != spec.shape or tensor.dtype is not spec.dtype:
            raise _damaged(self._path, f"no part of {name} of {spec} on rank {rank}")
        return tensor.numpy()


def _folder(path: Path) -> Path:
    return path.with_suffix(f".{PARTS}")


def _part(digest: str, rank: int, ranks: int) -> str:
    return f"{digest}.{rank}-of-{ranks}.safetensors"


def _facts(metadata: Mapping[str, str]) -> dict[str, Any]:
    try:
        facts = json.loads(metadata["nnc"])
    except (KeyError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _remove_unnamed(path: Path, folder: Path, keep: int) -> None:
    """What neither the checkpoint nor the older ones that are kept name; one that cannot be read keeps all."""
    names = set[str]()
    older = [path.with_name(f"{path.stem}.{number}{path.suffix}") for number in range(1, keep)]
    for each in (path, *older):
        if os.path.exists(each):
            with suppress(FormatError):
                digests = _facts(read_metadata(each)).get(PARTS, {}).get("digests", [])
                names |= {_part(digest, rank, len(digests)) for rank, digest in enumerate(digests)}
    for each in folder.glob("*-of-*.safetensors"):
        if each.name not in names:
            with suppress(OSError):
                each.unlink()


def _damaged(path: Path, got: str) -> FormatError:
    return FormatError(str(path), got=got, need="a checkpoint in parts", fix="copy the folder of its parts along")
