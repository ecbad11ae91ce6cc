"""Autotune: time every claim of a command, variants included, on the tensors at hand, and keep the fastest.

    winner = argmin over claims of the median over rounds of seconds(claim, then the preferred claim)

A command is timed as it stands in its graph: on copies, in which tensors that share memory share it as before; after
as many bytes have passed through the caches as the rest of the graph has; and between commands of the preferred
backend on other copies. The one before keeps workers awake. The one behind is part of the same program, or waits for
another one, and its workers may find the processor taken. Rounds of one claim follow each other, as what it leaves
behind is felt by the next. A stream is drained before the clock is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from time import perf_counter

import numpy as np

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete.body import ConcreteBody, Exec, Places, all_bodies
from nnc.concrete.choices import MeasuredChoice, TuneCache, cache_in, cache_key, versions
from nnc.concrete.tape import sample
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import Backend, Call, Claim, Dispatcher, Program, Specs, Tensors
from nnc.core.running.stream import Stream
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import U8
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import ALIGNMENT, ALLOCATOR, allocate_on, memory_of
from nnc.core.values.tensor import Tensor
from nnc.errors import MemoryLimitError, OutOfMemoryError, UsageError

# At most this many bytes pass through the caches between two runs.
MOST_PASSING = 32 * 1024 * 1024
# A claim that takes this many times as long as the fastest in its first run is not run again.
HOPELESS = 8.0
# The preferred claim stays unless another takes less than this part of its time: clocks are not as exact.
MARGIN = 0.98


def _default_cache() -> TuneCache:
    return cache_in(SETTINGS.cache_folder)


@checked
@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to measure: the most scratch memory a kernel may want, and where, how often and by which clock to run it.

    Without a stream claims run on the calling thread. With `within_plan` no kernel of a graph may want more scratch
    memory than the one that it takes the place of.
    """

    workspace_limit: int | None = None
    stream: Stream | None = None
    rounds: int = 7
    clock: Callable[[], float] = perf_counter
    cache: TuneCache = field(default_factory=_default_cache)
    within_plan: bool = False


@checked
def checked_tuning(subject: str, autotune: TuneOptions | bool, deterministic: bool) -> TuneOptions | None:
    """How to tune a planned graph; None for not at all. UsageError when what is fixed is also to be measured."""
    if isinstance(autotune, np.bool_):
        autotune = bool(autotune)
    if autotune is False:
        return None
    if deterministic:
        raise UsageError(
            subject, got="autotune and deterministic", need="one of them", fix="leave autotune out for the same bits"
        )
    return replace(TuneOptions() if autotune is True else autotune, within_plan=True)


@dataclass(frozen=True, slots=True)
class Site:
    """A command on its tensors, the most scratch memory for it, and the bytes that pass between two of its runs.

    `prefer` names the backend whose claim comes first.
    """

    command: AnyCommand
    inputs: Tensors
    outputs: Tensors
    limit: int | None = None
    passing: int = 0
    prefer: str = ""


@checked
def tune(
    command: AnyCommand, inputs: Tensors, outputs: Tensors, dispatcher: Dispatcher, options: TuneOptions | None = None
) -> Claim:
    """The fastest claim of a command on tensors like these, which are read but never written.

    MemoryLimitError when every claim of the command wants more workspace than the limit.
    """
    options = options or TuneOptions()
    claim = _tune(Site(command, inputs, outputs, options.workspace_limit), dispatcher, options)
    options.cache.save()
    return claim


def is_faster(
    command: AnyCommand,
    others: Specs,
    instead_of: Specs,
    outputs: Specs,
    dispatcher: Dispatcher,
    prefer: str,
    options: TuneOptions,
) -> bool:
    """Whether a command whose operands are `others`, in other layouts, takes clearly less time.

    The fastest claims of both are run in turn, on zeros, each behind bytes that nobody needs.
    """
    results = _zeros(outputs)
    sides = [(given, results) for given in map(_zeros, (instead_of, others))]
    names = tuple(" ".join(map(str, specs)) for specs in (instead_of, others))
    key = cache_key(command, *sides[0], names)
    known = options.cache.get(key)
    if known is None or known.claim not in names:
        bench, programs = _Bench(options, MOST_PASSING, _device_of(results)), []
        for given, _ in sides:
            site = Site(command, given, results, options.workspace_limit, MOST_PASSING, prefer)
            claim = _tune(site, dispatcher, options)
            programs.append(claim.backend.program([_call(claim, given, results)]))
        # What is run for the first time is warmed up.
        rounds = [[bench.seconds((program,)) for program in programs] for _ in range(max(options.rounds, 1) + 1)]
        usual, other = (np.median(each) for each in zip(*rounds[1:], strict=True))
        winner = (names[1], other) if other < MARGIN * usual else (names[0], usual)
        known = MeasuredChoice(*winner, versions())
        options.cache.put(key, known)
        options.cache.save()
    return known.claim == names[1]


def _zeros(specs: Specs) -> Tensors:
    return tuple(None if spec is None else Tensor.zeros(spec, "autotune") for spec in specs)


def tune_bodies(root: ConcreteBody, dispatcher: Dispatcher, prefer: str, options: TuneOptions) -> int:
    """Tune every command of a body and of all inside it; how many nodes changed their claim.

    A node keeps its claim where none runs on what its tensors hold now.
    """
    nodes = [
        (body, key, record, _site(record, options))
        for body in all_bodies(root)
        for key, record in body.execs.items()
        if isinstance(record, Exec)
    ]
    touched = _bytes_of(tensor for *_, site in nodes for tensor in (*site.inputs, *site.outputs))
    changed = 0
    for body, key, record, site in nodes:
        own = _bytes_of((*site.inputs, *site.outputs))
        try:
            passing = min(touched - own, MOST_PASSING)
            claim = _tune(replace(site, passing=passing, prefer=prefer), dispatcher, options)
        except MemoryLimitError:
            raise
        except UsageError:
            continue
        if (claim.backend, claim.variant) != (record.claim.backend, record.claim.variant):
            body.execs.replace_node(key, _with_claim(record, claim))
            changed += 1
    options.cache.save()
    return changed


def _site(record: Exec, options: TuneOptions) -> Site:
    limits = [options.workspace_limit, record.claim.kernel.workspace_bytes if options.within_plan else None]
    limit = min((limit for limit in limits if limit is not None), default=None)
    return Site(record.command, _samples(record.inputs), _samples(record.outputs), limit)


def _with_claim(record: Exec, claim: Claim) -> Exec:
    """A workspace that is too small for the new kernel is left to the run."""
    room = record.workspace
    fits = room is not None and room.spec.nbytes >= claim.kernel.workspace_bytes
    return replace(record, claim=claim, workspace=room if fits else None)


def _samples(places: Places) -> Tensors:
    return tuple(None if place is None else sample(place) for place in places)


def _bytes_of(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of all that tensors touch, what several touch counted once."""
    present = [tensor for tensor in tensors if tensor is not None and tensor.spec.elements]
    return sum(end - begin for begin, end in map(_span, _clusters(present)))


def _tune(site: Site, dispatcher: Dispatcher, options: TuneOptions) -> Claim:
    claims = _claims(site, dispatcher)
    if len(claims) == 1:
        return next(iter(claims.values()))
    key = cache_key(site.command, site.inputs, site.outputs, tuple(claims))
    known = options.cache.get(key)
    if known is None or known.claim not in claims:
        name, seconds = _fastest(claims, site, options)
        known = MeasuredChoice(name, seconds, versions())
        options.cache.put(key, known)
    return claims[known.claim]


def _claims(site: Site, dispatcher: Dispatcher) -> dict[str, Claim]:
    """All claims within the limit by name, in order of preference."""
    specs = _specs(site.inputs), _specs(site.outputs)
    claims = dispatcher.claims(site.command, *specs, site.prefer)
    if not claims:
        # Raises the error that says why each backend refuses.
        return {"": dispatcher.claim(site.command, *specs)}
    limit = site.limit
    fitting = [claim for claim in claims if limit is None or claim.kernel.workspace_bytes <= limit]
    if not fitting:
        least = min(claim.kernel.workspace_bytes for claim in claims)
        raise MemoryLimitError(
            site.command.op.name, got=f"a workspace limit of {limit} bytes", need=f"at least {least} bytes"
        )
    return {str(claim): claim for claim in fitting}


def _fastest(claims: Mapping[str, Claim], site: Site, options: TuneOptions) -> tuple[str, float]:
    """The name of the fastest claim, and the seconds that it takes with the preferred one behind it."""
    bench = _Bench(options, site.passing, _device_of(site.outputs))
    calls, first = _first_runs(claims, site, bench)
    hopeful = [name for name in calls if first[name] <= HOPELESS * min(first.values())]
    preferred = hopeful[0]
    if len(hopeful) == 1:
        return preferred, first[preferred]
    neighbour, backend = _call(claims[preferred], *_copies(site)), claims[preferred].backend
    before = backend.program([neighbour])
    usual = {}
    for name in hopeful:
        programs = _programs(claims[name].backend, calls[name], backend, neighbour)
        usual[name] = float(np.median([bench.seconds(programs, before) for _ in range(max(options.rounds, 1))]))
    fastest = min(usual, key=usual.__getitem__)
    winner = fastest if usual[fastest] < MARGIN * usual[preferred] else preferred
    return winner, usual[winner]


def _programs(backend: Backend, call: Call, other: Backend, behind: Call) -> tuple[Program, ...]:
    """A call and another one behind it, as one program where one backend runs both."""
    if backend is other:
        return (backend.program([call, behind]),)
    return backend.program([call]), other.program([behind])


def _call(claim: Claim, inputs: Tensors, outputs: Tensors) -> Call:
    """The claim's kernel with scratch memory."""
    need, home = claim.kernel.workspace_bytes, _device_of(outputs)
    room = Tensor.empty(TensorSpec((need,), U8, device=home), "workspace") if need else None
    return Call(claim.kernel, inputs, outputs, room)


def _device_of(tensors: Tensors) -> Device:
    return next((tensor.spec.device for tensor in tensors if tensor is not None), CPU)


def _copies(site: Site) -> tuple[Tensors, Tensors]:
    """Copies of the inputs and of the outputs."""
    tensors, count = copy_all((*site.inputs, *site.outputs)), len(site.inputs)
    return tensors[:count], tensors[count:]


def _first_runs(claims: Mapping[str, Claim], site: Site, bench: _Bench) -> tuple[dict[str, Call], dict[str, float]]:
    """The calls of the claims that run, all on the same copies, and the seconds that each took at first."""
    calls: dict[str, Call] = {}
    seconds: dict[str, float] = {}
    failure: UsageError | None = None
    copies = _copies(site)
    for name, claim in claims.items():
        call = _call(claim, *copies)
        try:
            seconds[name] = bench.seconds((claim.backend.program([call]),))
            calls[name] = call
        except OutOfMemoryError:
            # Says nothing of the claim, and a choice among the others would be kept.
            raise
        except UsageError as error:
            failure = error
    if not calls:
        assert failure is not None
        raise failure
    return calls, seconds


class _Bench:
    """Runs programs by the clock of `options`, after `passing` bytes of the host that nobody needs.

    Programs of another device than the host are waited for: its caches are left as they are.
    """

    def __init__(self, options: TuneOptions, passing: int, device: Device) -> None:
        self.options, self._device = options, device
        self._others, _ = ALLOCATOR.take(passing if device.is_host else 0, zeroed=True)

    def seconds(self, programs: Sequence[Program], before: Program | None = None) -> float:
        """What one run of all takes, one after another; that of `before` is not counted."""
        np.add(self._others, 1, out=self._others)
        if before is not None:
            self._run((before,))
        begin = self.options.clock()
        self._run(programs)
        return self.options.clock() - begin

    def _run(self, programs: Sequence[Program]) -> None:
        stream = self.options.stream
        for program in programs:
            if stream is None:
                program()
            else:
                stream.submit(program)
        if stream is not None:
            stream.drain()
        if not self._device.is_host:
            DEVICES.driver(self._device).synchronize(self._device)


def copy_all(tensors: Tensors) -> Tensors:
    """Copies that lie in fresh memory as the originals lie in theirs: what overlaps there overlaps here."""
    present = {id(tensor): tensor for tensor in tensors if tensor is not None and tensor.spec.elements}
    copies: dict[int, Tensor] = {}
    # An address of one device may be one of another, too.
    for device in dict.fromkeys(tensor.spec.device for tensor in present.values()):
        for cluster in _clusters([tensor for tensor in present.values() if tensor.spec.device == device]):
            begin, end = _span(cluster)
            skip = begin % ALIGNMENT
            storage = allocate_on(device, skip + end - begin, "autotune")
            for tensor in cluster:
                first, last = _extent(tensor)
                target = skip + first - begin
                if device.is_host:
                    source = tensor.storage.bytes[first - tensor.storage.address : last - tensor.storage.address]
                    storage.bytes[target : target + last - first] = source
                else:
                    memory_of(device).copy(device, storage.address + target, first, last - first)
                copies[id(tensor)] = Tensor(tensor.spec, storage, skip + tensor.address - begin, tensor.strides)
    return tuple(None if given is None else copies.get(id(given)) or Tensor.empty(given.spec) for given in tensors)


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


def _span(cluster: Sequence[Tensor]) -> tuple[int, int]:
    """[begin, end) of the addresses that a group touches."""
    extents = [_extent(tensor) for tensor in cluster]
    return min(begin for begin, _ in extents), max(end for _, end in extents)


def _extent(tensor: Tensor) -> tuple[int, int]:
    """[begin, end) of the addresses that a tensor touches."""
    size = tensor.dtype.itemsize
    steps = [(length - 1) * stride * size for length, stride in zip(tensor.shape, tensor.strides, strict=True)]
    first = tensor.address + sum(step for step in steps if step < 0)
    return first, tensor.address + sum(step for step in steps if step > 0) + size


def _specs(tensors: Tensors) -> Specs:
    return tuple(None if tensor is None else tensor.spec for tensor in tensors)
