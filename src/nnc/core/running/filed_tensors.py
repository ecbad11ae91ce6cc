"""Tensors whose memory is a file without a name: the system writes them behind the run's back, and may forget them.

A page that was written is in memory until the system wants that for something else; then it is on the disk, and comes
back when it is touched, or in front of that where `FiledTensors.announce` was called. Nothing is left of the file when
its last tensor goes, however the process ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping

import numpy as np

from nnc.core.precautions.replacement import reason_of
from nnc.core.running.file_device import Folder, checked_folder
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import Storage, aligned
from nnc.core.values.tensor import Tensor
from nnc.errors import OutOfMemoryError, UsageError


class FiledTensors:
    """Zeros by name in one file of a folder. OutOfMemoryError where its disk has no room, UsageError for no folder."""

    def __init__(self, specs: Mapping[str, TensorSpec], folder: Folder) -> None:
        place, self._process = checked_folder(folder), os.getpid()
        begins, end = {}, 0
        for name, spec in specs.items():
            begins[name], end = end, end + aligned(spec.nbytes)
        try:
            with tempfile.TemporaryFile(dir=place, buffering=0) as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, max(end, 1))
                else:
                    os.truncate(file.fileno(), max(end, 1))
                self._map = mmap.mmap(file.fileno(), max(end, 1))
        except OSError as error:
            got, fix = f"{end} bytes in {place}: {reason_of(error)}", "free some, or name another folder"
            raise OutOfMemoryError("state_folder", got=got, need="room on its disk", fix=fix) from error
        storage = Storage(np.frombuffer(self._map, np.uint8), "file")
        self.tensors = {name: Tensor(spec, storage, begins[name]) for name, spec in specs.items()}

    def announce(self) -> None:
        """Let the system read what is not in memory, meanwhile: it will be used. UsageError in a child of a fork."""
        if os.getpid() != self._process:
            got, fix = "tensors in a file of the process that forked this one", "copy.copy(model) in the child"
            raise UsageError("state_folder", got=got, need="a file of this process", fix=fix)
        if hasattr(mmap, "MADV_WILLNEED"):
            self._map.madvise(mmap.MADV_WILLNEED)
