"""A limit on the addresses of this process (RLIMIT_AS, `ulimit -v`): what it leaves, and errors that name it.

A library that is loaded, and the buffers that it takes once, count in addresses, whatever they hold. Where there is a
limit they are asked for beforehand: some libraries end the process where they get none.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nnc.errors import OutOfMemoryError

if sys.platform != "win32":
    import resource

MEGABYTE = 1e6


def address_limit() -> int | None:
    """Bytes of addresses that the process may have; None without a limit."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def addresses_in_use() -> int:
    """Bytes of addresses that the process has; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@contextmanager
def within_addresses(step: str) -> Iterator[None]:
    """A block whose MemoryError, Python's own, is an OutOfMemoryError that names the step and the limit."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except MemoryError:
        raise _shortage(step, "memory for it") from None


def check_addresses(step: str, nbytes: int) -> None:
    """OutOfMemoryError where a limit leaves no run of so many bytes; without a limit nothing is asked."""
    if address_limit() is None:
        return
    try:
        mmap.mmap(-1, nbytes).close()
    except (OSError, MemoryError):
        raise _shortage(step, f"{nbytes / MEGABYTE:.0f} MB of addresses") from None


def _shortage(step: str, need: str) -> OutOfMemoryError:
    limit = address_limit()
    if limit is None:
        return OutOfMemoryError(step, got="no more memory of the system", need=need)
    used = addresses_in_use() / MEGABYTE
    got = f"a limit of {limit / MEGABYTE:.0f} MB on addresses (RLIMIT_AS), {used:.0f} MB in use"
    return OutOfMemoryError(step, got=got, need=need, fix="raise it: ulimit -v, resource.setrlimit")
