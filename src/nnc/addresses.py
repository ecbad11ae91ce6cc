"""A limit on the addresses of this process (RLIMIT_AS, `ulimit -v`): what it leaves, and errors that name it.

A library that is loaded, and the buffers that it takes once, count in addresses, whatever they hold. Where there is a
limit they are asked for beforehand: some libraries end the process where they get none.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from nnc.errors import OutOfMemoryError

if sys.platform != "win32":
    import resource

MEGABYTE = 1e6
# The stack of a thread, and what the C library sets up for it: without them it ends the process.
THREAD_BYTES = 24_000_000
# How the loader of libraries says that a module of Python's got no addresses: it has no error number.
UNMAPPED = (
    "failed to map segment",
    "annot allocate memory",
    "cannot map zero-fill",
    "cannot change memory protections",
)

# Addresses that nothing is in, given back where an error is to be made: Python asks for 1 MB at a time.
RESERVE_BYTES = 2 << 20
_RESERVE: list[mmap.mmap] = []


def address_limit() -> int | None:
    """Bytes of addresses that the process may have; None without a limit."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def addresses_in_use() -> int:
    """Bytes of addresses that the process has; 0 where the system does not say."""
    # As bytes: text would import what decodes it, for which there may be no memory any more.
    with suppress(OSError, ValueError, IndexError, MemoryError), open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@contextmanager
def within_addresses(step: str) -> Iterator[None]:
    """A block whose MemoryError, Python's own, is an OutOfMemoryError that names the step and the limit.

    So are errors of the system and of its loader that say the same, and under a limit a SystemError: code in C that did
    not look whether it got memory.
    """
    _reserve()
    try:
        yield
    except OutOfMemoryError:
        raise
    # Python's parser that gets no memory may say SyntaxError, of a module whose bytecode is not on the disk.
    except (MemoryError, ImportError, OSError, SystemError, SyntaxError) as error:
        if not is_shortage(error):
            raise
        raise _shortage(step, "memory for it") from None


def _reserve() -> None:
    """Hold addresses that nothing is in, where there are some."""
    if not _RESERVE:
        with suppress(OSError, MemoryError):
            _RESERVE.append(mmap.mmap(-1, RESERVE_BYTES))


# Before any limit is met: below one of 2 MB there is no reserve to be had.
_reserve()


def is_shortage(error: Exception) -> bool:
    """Whether it says that memory or addresses are at their end."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, ImportError):
        return any(word in str(error) for word in UNMAPPED)
    return isinstance(error, MemoryError) or address_limit() is not None


def start(thread: Thread, step: str) -> None:
    """Start a thread. OutOfMemoryError where the limit, or the system, has no room for it."""
    check_addresses(step, THREAD_BYTES)
    try:
        thread.start()
    except RuntimeError:
        raise _shortage(step, "a thread") from None


def check_addresses(step: str, nbytes: int) -> None:
    """OutOfMemoryError where a limit leaves no run of so many bytes; without a limit nothing is asked."""
    if address_limit() is None:
        return
    try:
        mmap.mmap(-1, max(1, nbytes)).close()
    except (OSError, MemoryError):
        raise _shortage(step, f"{nbytes / MEGABYTE:.0f} MB of addresses") from None


def _shortage(step: str, need: str) -> OutOfMemoryError:
    _RESERVE.clear()
    limit = address_limit()
    if limit is None:
        return OutOfMemoryError(step, got="no more memory of the system", need=need)
    used = addresses_in_use() / MEGABYTE
    got = f"a limit of {limit / MEGABYTE:.0f} MB on addresses (RLIMIT_AS), {used:.0f} MB in use"
    return OutOfMemoryError(step, got=got, need=need, fix="raise it: ulimit -v, resource.setrlimit")
