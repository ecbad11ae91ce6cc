"""Checkpoints of models in shards: each rank writes what it has, and any number of ranks, or one, reads it.

    model.safetensors            what all ranks have the same, position and facts, and the names of the parts
    model.parts/<hash>.<rank>-of-<ranks>.safetensors      shards, flat

Parts are named by what is in them and never written over. The first file takes the place of the old one when all parts
are on disk, so that at every moment there is a whole checkpoint; parts that none names any more are removed then.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
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
from nnc.nn.model.model import Model
from nnc.nn.steps.training_steps import optimizers_of
from nnc.parallel import Communicator, all_or_none, joined
from nnc.parallel.tensor_shards import shard_size

PARTS = "parts"
# Names come from a file: they lead nowhere else.
FOLDER = re.compile(rf"[^/\\\0]+\.{PARTS}")
DIGEST = re.compile("[0-9a-f]{64}")

Facts = Mapping[str, object]
Seal = Callable[[Facts, Mapping[str, Tensor]], str]


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor as this process has it, of a `whole` one: all of it, or the shard of a rank of so many."""

    tensor: Tensor
    whole: TensorSpec
    rank: int = 0
    ranks: int = 0

    @property
    def is_shard(self) -> bool:
        """Whether others have the rest."""
        return self.ranks > 1

    def plain(self) -> Tensor:
        """The whole tensor, of a process that has all of it."""
        return self.tensor if self.tensor.shape == self.whole.shape else self.tensor.reshape(self.whole.shape)

    @property
    def span(self) -> tuple[int, int]:
        """Which elements of the whole tensor it has."""
        size, most = self.tensor.spec.elements, self.whole.elements
        return min(self.rank * size, most), min((self.rank + 1) * size, most)

    def take(self, stored: StoredTensor) -> None:
        """The values from a file."""
        begin, end = self.span
        values = np.zeros(self.tensor.spec.elements, self.whole.dtype.numpy)
        values[: end - begin] = stored.flat(begin, end)
        self.tensor.copy_from(values.reshape(self.tensor.shape))


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file: what it is, and its elements from one place to another."""

    spec: TensorSpec
    flat: Callable[[int, int], NDArray[Any]]

    @classmethod
    def of(cls, tensor: Tensor) -> StoredTensor:
        """One that lies there whole."""
        return cls(tensor.spec, lambda begin, end: tensor.numpy().reshape(-1)[begin:end])


def held_of(model: Model) -> dict[str, Held]:
    """Parameters, statistics and states of the optimizer, by path, as this process has them."""
    sharding, specs, group = model.options.sharding, model.specs, model.options.ranks
    place = (0, 0) if group is None or not sharding.stage else (joined(group).rank, group.size)

    def held(tensor: Tensor, whole: TensorSpec, *, in_shards: bool) -> Held:
        return Held(tensor, whole, *(place if in_shards else ()))

    rows = {
        path: held(tensor, specs[path].spec, in_shards=sharding.splits(specs[path]))
        for path, tensor in model.tensors().items()
    }
    for path, part in optimizers_of(model.optimizer, specs).items():
        for name, whole in part.state_specs(specs[path].spec).items():
            rows[f"{path}.{name}"] = held(model.states[f"{path}.{name}"], whole, in_shards=sharding.stage > 0)
    return rows


def save_parts(
    path: Path, ranks: Communicator, facts: Facts, held: Mapping[str, Held], seal: Seal, *, keep: int
) -> None:
    """Write our part, and once all ranks have, the file that names them; every rank calls it."""
    own = {name: each.tensor for name, each in held.items() if each.is_shard}
    same = {name: each.plain() for name, each in held.items() if not each.is_shard}
    folder = _folder(path)

    def write_part() -> str:
        make_folder(folder)
        digest = checksum(own)
        save_tensors(folder / _part(digest, ranks.rank, ranks.size), own)
        return digest

    digest = all_or_none(ranks, "save_checkpoint", write_part)
    rows = ranks.all_gather(np.frombuffer(digest.encode(), np.uint8)[None])
    wholes = {name: [each.whole.dtype.name, *each.whole.shape] for name, each in held.items() if each.is_shard}
    parts = {"folder": folder.name, "digests": [row.tobytes().decode() for row in rows], "wholes": wholes}

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
        wholes = {
            str(name): TensorSpec(tuple(shape), dtype_of(kind)) for name, (kind, *shape) in parts["wholes"].items()
        }
    except (KeyError, TypeError, ValueError, UsageError):
        raise _damaged(path, "names of parts that cannot be read") from None
    pieces = _Pieces(path, path.parent / folder, digests)
    return stored | {name: StoredTensor(whole, pieces.of(name, whole)) for name, whole in wholes.items()}


class _Pieces:
    """The parts of a checkpoint, each opened and checked when it is first read."""

    def __init__(self, path: Path, folder: Path, digests: list[str]) -> None:
        self._path, self._folder, self._digests = path, folder, digests
        self._open: dict[int, Mapping[str, Tensor]] = {}

    def of(self, name: str, whole: TensorSpec) -> Callable[[int, int], NDArray[Any]]:
        size = shard_size(whole.elements, len(self._digests))

        def flat(begin: int, end: int) -> NDArray[Any]:
            pieces = [np.empty(0, whole.dtype.numpy)]
            for rank in range(begin // size, -(-end // size)) if size else ():
                first, last = max(begin - rank * size, 0), min(end - rank * size, size)
                pieces.append(self._piece(rank, name, whole, size)[first:last])
            return np.concatenate(pieces)

        return flat

    def _piece(self, rank: int, name: str, whole: TensorSpec, size: int) -> NDArray[Any]:
        if rank not in self._open:
            digest = self._digests[rank]
            place = self._folder / _part(digest, rank, len(self._digests))
            tensors = load_tensors(place).tensors
            if checksum(tensors) != digest:
                raise _damaged(place, "a part that was damaged or changed: its checksum is another")
            self._open[rank] = tensors
        tensor = self._open[rank].get(name)
        if tensor is None or tensor.shape != (size,) or tensor.dtype is not whole.dtype:
            raise _damaged(self._path, f"no part of {name} of {whole} on rank {rank}")
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
