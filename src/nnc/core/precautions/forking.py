"""Locks in forked children: what another thread of the parent holds there is free here, where that thread is not.

    self._lock = fork_safe_lock()           free in a child, whoever held it
    in_children(self)                       a child calls `self.forget_threads()`
    with FORK_GUARD: …                      a fork in another thread waits for the end of the block

What such a lock guards must be sound whenever it is held: tables that are filled by one assignment are.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol

# For what holds locks that are not ours: those of LLVM, and of modules that are being imported.
FORK_GUARD = threading.RLock()


class Forked(Protocol):
    """What knows of threads."""

    def forget_threads(self) -> None:
        """In a child: threads but the calling one are gone."""


_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()
_FORKED: weakref.WeakSet[Forked] = weakref.WeakSet()


def fork_safe_lock() -> threading.Lock:
    """A lock."""
    lock = threading.Lock()
    _LOCKS.add(lock)
    return lock


def fork_safe_rlock() -> threading.RLock:
    """A lock that its thread may take again."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def in_children(owner: Forked) -> None:
    """Have `owner` told in each forked child, as long as it lives."""
    _FORKED.add(owner)


def _renew() -> None:
    for lock in list(_LOCKS):
        # What the forking thread itself holds, it releases itself.
        if not getattr(lock, "_is_owned", bool)():
            lock._at_fork_reinit()
    for owner in list(_FORKED):
        owner.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=FORK_GUARD.acquire, after_in_parent=FORK_GUARD.release, after_in_child=FORK_GUARD.release
    )
    os.register_at_fork(after_in_child=_renew)
