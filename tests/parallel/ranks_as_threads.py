"""Ranks of a launch as threads of this process: messages go through memory, and all else is as between processes."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

from nnc.parallel import mesh
from nnc.parallel.communicator import Communicator

R = TypeVar("R")
# `Any`: bytes of arrays of any kind.
Box = dict[tuple[int, int], deque[tuple[int, Any]]]


class Sent:
    """A message that was handed over."""

    def Test(self) -> bool:  # as mpi4py has it
        return True


class Awaited:
    """A message that is to come."""

    def __init__(self, buffer: Any, line: deque[tuple[int, Any]], tag: int) -> None:
        self._buffer, self._line, self._tag, self._came = buffer, line, tag, False

    def Test(self) -> bool:
        if not self._came and self._line and self._line[0][0] == self._tag:
            self._buffer[...] = self._line.popleft()[1]
            self._came = True
        return self._came


class ThreadWire:
    """What `Communicator` asks of mpi4py, between threads."""

    def __init__(self, world: World, members: tuple[int, ...], rank: int, color: object) -> None:
        self._world, self._members, self._rank, self._color = world, members, rank, color

    def Get_rank(self) -> int:
        return self._rank

    def Get_size(self) -> int:
        return len(self._members)

    def Get_attr(self, _: object) -> int:
        return 0

    def Split(self, color: int, rank: int) -> ThreadWire:
        colors = self._world.told((self._color, "split"), rank, color)
        members = tuple(number for number in self._members if colors[number] == color)
        return ThreadWire(self._world, members, members.index(rank), (self._color, color, members))

    def Isend(self, values: Any, rank: int, tag: int) -> Sent:
        self._line(self._rank, rank).append((tag, np.array(values)))
        return Sent()

    def Irecv(self, buffer: Any, rank: int, tag: int) -> Awaited:
        return Awaited(buffer, self._line(rank, self._rank), tag)

    def Iprobe(self, rank: int, tag: int, status: Any) -> bool:
        return False

    def _line(self, sender: int, receiver: int) -> deque[tuple[int, Any]]:
        return self._world.boxes[self._color][sender, receiver]


class World:
    """What all ranks of a launch share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.boxes: dict[object, Box] = defaultdict(lambda: defaultdict(deque))
        self._told: dict[object, dict[int, int]] = defaultdict(dict)
        self._turns: dict[tuple[int, object], int] = defaultdict(int)
        self._barrier = threading.Barrier(size)

    def told(self, subject: object, rank: int, value: int) -> dict[int, int]:
        self._turns[rank, subject] += 1
        place = (subject, self._turns[rank, subject])
        self._told[place][rank] = value
        self._barrier.wait(30)
        return self._told[place]


class PerThread(dict[Any, Any]):
    """Communicators of each rank."""

    def __getitem__(self, group: Any) -> Any:
        return super().__getitem__((threading.get_ident(), group))

    def __setitem__(self, group: Any, value: Any) -> None:
        super().__setitem__((threading.get_ident(), group), value)

    def __contains__(self, group: object) -> bool:
        return super().__contains__((threading.get_ident(), group))


class NoLock:
    """Each rank has its own communicators."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


@contextmanager
def _threads(worlds: PerThread) -> Iterator[None]:
    def world() -> Communicator:
        made: Communicator = worlds["world"]
        return made

    with (
        patch.object(mesh, "world", world),
        patch.object(mesh, "_JOINED", PerThread()),
        patch.object(mesh, "_JOINING", NoLock()),
    ):
        yield


def run_ranks(size: int, work: Callable[[int], R]) -> list[R]:
    """What `work(rank)` gives on each of so many ranks; the first error of any of them."""
    shared, worlds = World(size), PerThread()
    results: dict[int, R] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        wire = ThreadWire(shared, tuple(range(size)), rank, "world")
        worlds["world"] = Communicator(wire, timeout=20.0)
        try:
            results[rank] = work(rank)
        except BaseException as error:
            errors.append(error)

    with _threads(worlds):
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(size)]
