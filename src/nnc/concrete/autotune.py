"""Autotune: time every backend that claims a command on the tensors at hand, and keep the fastest.

    winner = argmin over claims of min over rounds of seconds(claim)

Claims run on copies, in which tensors that share memory share it as before; a stream is drained before the clock is
read. Results are kept in the cache folder, by processor, command, specs and versions.
"""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

from nnc.concrete.body import Body, Exec, Places, all_bodies
from nnc.concrete.tape import sample
from nnc.core.command import AnyCommand
from nnc.core.dispatch import Call, Claim, Dispatcher, Program, Specs, Tensors
from nnc.core.dtype import U8
from nnc.core.serialize import write_atomically
from nnc.core.settings import SETTINGS
from nnc.core.spec import TensorSpec
from nnc.core.storage import ALIGNMENT, Storage
from nnc.core.stream import Stream
from nnc.core.tensor import Tensor
from nnc.errors import MemoryLimitError, UsageError

FORMAT_VERSION = 1
FILE_NAME = "autotune.json"
PACKAGES = ("nnc", "numpy", "llvmlite")


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest backend, and what it took."""

    backend: str
    seconds: float


class TuneCache:
    """Winners by key, read from `folder` at the first use and written back by `save`; None keeps them in memory only.

    A file that cannot be used is ignored with one warning and replaced by the next `save`.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / FILE_NAME
        self._entries: dict[str, Entry] = {}
        self._fresh: dict[str, Entry] = {}
        self._loaded = False
        self._warned = False

    def get(self, key: str) -> Entry | None:
        """The winner of an earlier measurement."""
        if not self._loaded:
            self._entries = {**self._read(), **self._entries}
            self._loaded = True
        return self._entries.get(key)

    def put(self, key: str, entry: Entry) -> None:
        """Keep a winner."""
        self._entries[key] = self._fresh[key] = entry

    def save(self) -> None:
        """Write what is new, together with what other processes have written meanwhile."""
        if self.path is None or not self._fresh:
            return
        rows = {key: [entry.backend, entry.seconds] for key, entry in sorted({**self._read(), **self._fresh}.items())}
        text = json.dumps({"version": FORMAT_VERSION, "entries": rows}, indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, [text.encode()])
        except (OSError, UsageError) as error:
            self._warn(str(error))
        self._fresh.clear()

    def _read(self) -> dict[str, Entry]:
        if self.path is None:
            return {}
        try:
            return _entries(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self._warn(f"{type(error).__name__}: {error}")
            return {}

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"nnc: ignoring the autotune cache {self.path}: {reason}", RuntimeWarning, stacklevel=2)


def _entries(document: object) -> dict[str, Entry]:
    """The rows of a file of this version; none of another version. ValueError when it is no such file."""
    match document:
        case {"version": int(number), "entries": dict(rows)}:
            return {str(key): _entry(row) for key, row in rows.items()} if number == FORMAT_VERSION else {}
        case _:
            raise ValueError("not a table of winners")


def _entry(row: object) -> Entry:
    match row:
        case [str(backend), float(seconds)]:
            return Entry(backend, seconds)
        case _:
            raise ValueError("a row that is not [backend, seconds]")


@lru_cache(maxsize=8)
def cache_in(folder: Path | None) -> TuneCache:
    """The cache of this process for a folder."""
    return TuneCache(folder)


def _default_cache() -> TuneCache:
    return cache_in(SETTINGS.cache_folder)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to measure: the most scratch memory a kernel may want, and where, how often and by which clock to run it.

    Without a stream claims run on the calling thread.
    """

    workspace_limit: int | None = None
    stream: Stream | None = None
    rounds: int = 3
    clock: Callable[[], float] = perf_counter
    cache: TuneCache = field(default_factory=_default_cache)


def tune(
    command: AnyCommand, inputs: Tensors, outputs: Tensors, dispatcher: Dispatcher, options: TuneOptions | None = None
) -> Claim:
    """The fastest claim of a command on tensors like these, which are read but never written.

    MemoryLimitError when every backend that claims the command wants more workspace than the limit.
    """
    options = options or TuneOptions()
    claim = _tune(command, inputs, outputs, dispatcher, options)
    options.cache.save()
    return claim


def tune_bodies(root: Body, dispatcher: Dispatcher, options: TuneOptions) -> int:
    """Tune every command of a body and of all inside it; how many nodes changed their backend."""
    changed = 0
    for body in all_bodies(root):
        for key, record in tuple(body.execs.items()):
            if isinstance(record, Exec):
                claim = _tune(record.command, _samples(record.inputs), _samples(record.outputs), dispatcher, options)
                if claim.backend is not record.claim.backend:
                    body.execs.replace_node(key, _with_claim(record, claim))
                    changed += 1
    options.cache.save()
    return changed


def _with_claim(record: Exec, claim: Claim) -> Exec:
    """A workspace that is too small for the new kernel is left to the run."""
    room = record.workspace
    fits = room is not None and room.spec.nbytes >= claim.kernel.workspace_bytes
    return replace(record, claim=claim, workspace=room if fits else None)


def _samples(places: Places) -> Tensors:
    return tuple(None if place is None else sample(place) for place in places)


def _tune(
    command: AnyCommand, inputs: Tensors, outputs: Tensors, dispatcher: Dispatcher, options: TuneOptions
) -> Claim:
    claims = _claims(command, _specs(inputs), _specs(outputs), dispatcher, options.workspace_limit)
    if len(claims) == 1:
        return next(iter(claims.values()))
    key = cache_key(command, _specs(inputs), _specs(outputs), tuple(claims))
    known = options.cache.get(key)
    if known is None or known.backend not in claims:
        known = _fastest(claims, inputs, outputs, options)
        options.cache.put(key, known)
    return claims[known.backend]


def _claims(
    command: AnyCommand, inputs: Specs, outputs: Specs, dispatcher: Dispatcher, limit: int | None
) -> dict[str, Claim]:
    """All claims within the limit, by name of the backend, in order of preference."""
    willing = [one for one in dispatcher.candidates() if not one.refusal(command, inputs, outputs)]
    if not willing:
        # Raises the error that says why each backend refuses.
        return {"": dispatcher.claim(command, inputs, outputs)}
    claims = {one.name: Claim(one, one.kernel(command, inputs, outputs)) for one in willing}
    needs = {name: claim.kernel.workspace_bytes for name, claim in claims.items()}
    fitting = {name: claim for name, claim in claims.items() if limit is None or needs[name] <= limit}
    if not fitting:
        raise MemoryLimitError(
            command.op.name, got=f"a workspace limit of {limit} bytes", need=f"at least {min(needs.values())} bytes"
        )
    return fitting


def _fastest(claims: Mapping[str, Claim], inputs: Tensors, outputs: Tensors, options: TuneOptions) -> Entry:
    tensors = copy_all((*inputs, *outputs))
    read, written = tensors[: len(inputs)], tensors[len(inputs) :]
    entries: list[Entry] = []
    failure: UsageError | None = None
    for name, claim in claims.items():
        need = claim.kernel.workspace_bytes
        room = Tensor.empty(TensorSpec((need,), U8), "workspace") if need else None
        try:
            program = claim.backend.program([Call(claim.kernel, read, written, room)])
            entries.append(Entry(name, _seconds(program, options)))
        except UsageError as error:
            failure = error
    if not entries:
        assert failure is not None
        raise failure
    return min(entries, key=lambda entry: entry.seconds)


def _seconds(program: Program, options: TuneOptions) -> float:
    """The best of all rounds after one to warm up."""
    _run(program, options.stream)
    found = []
    for _ in range(max(options.rounds, 1)):
        begin = options.clock()
        _run(program, options.stream)
        found.append(options.clock() - begin)
    return min(found)


def _run(program: Program, stream: Stream | None) -> None:
    if stream is None:
        program()
    else:
        stream.submit(program)
        stream.drain()


def cache_key(command: AnyCommand, inputs: Specs, outputs: Specs, backends: Sequence[str]) -> str:
    """All that the winner depends on, as text."""
    specs = " ".join("–" if spec is None else str(spec) for spec in (*inputs, *outputs))
    versions = " ".join(f"{name}-{_version(name)}" for name in PACKAGES)
    machine = f"{processor()} x{SETTINGS.worker_count()}"
    return " | ".join((machine, versions, " ".join(backends), f"{command.op.name} {command.attrs!r}", specs))


@cache
def processor() -> str:
    """The processor's name, as exact as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def copy_all(tensors: Tensors) -> Tensors:
    """Copies that lie in fresh memory as the originals lie in theirs: what overlaps there overlaps here."""
    present = {id(tensor): tensor for tensor in tensors if tensor is not None}
    copies: dict[int, Tensor] = {}
    for cluster in _clusters([tensor for tensor in present.values() if tensor.spec.elements]):
        begin = min(_extent(tensor)[0] for tensor in cluster)
        end = max(_extent(tensor)[1] for tensor in cluster)
        skip = begin % ALIGNMENT
        storage = Storage.allocate(skip + end - begin, "autotune")
        for tensor in cluster:
            first, last = _extent(tensor)
            source = tensor.storage.bytes[first - tensor.storage.address : last - tensor.storage.address]
            storage.bytes[skip + first - begin : skip + last - begin] = source
            copies[id(tensor)] = Tensor(tensor.spec, storage, skip + tensor.address - begin, tensor.strides)
    return tuple(None if one is None else copies.get(id(one)) or Tensor.empty(one.spec) for one in tensors)


def _clusters(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Groups of tensors whose bytes overlap."""
    clusters: list[list[Tensor]] = []
    reach = -1
    for tensor in sorted(tensors, key=_extent):
        first, last = _extent(tensor)
        if first >= reach:
            clusters.append([])
        clusters[-1].append(tensor)
        reach = max(reach, last)
    return clusters


def _extent(tensor: Tensor) -> tuple[int, int]:
    """[begin, end) of the addresses that a tensor touches."""
    size = tensor.dtype.itemsize
    steps = [(length - 1) * stride * size for length, stride in zip(tensor.shape, tensor.strides, strict=True)]
    first = tensor.address + sum(step for step in steps if step < 0)
    return first, tensor.address + sum(step for step in steps if step > 0) + size


def _specs(tensors: Tensors) -> Specs:
    return tuple(None if tensor is None else tensor.spec for tensor in tensors)
