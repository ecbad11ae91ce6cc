"""Several threads at once, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_threads(*works: Callable[[], object]) -> None:
    """All at once; the first error of any of them."""
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
