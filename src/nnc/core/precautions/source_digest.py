"""Whether the sources of this package are those that this process has loaded, for what is kept on disk for others."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

# Clocks of file systems are not those of processes.
SLACK_SECONDS = 2.0


def digest_of_sources(package: Path, folders: Iterable[str], loaded: float, salt: str = "") -> str:
    """sha256(salt, sources in these folders); empty where files are missing, or are not older than `loaded`."""
    digest = hashlib.sha256(salt.encode())
    try:
        for folder in folders:
            paths = sorted((package / folder).rglob("*.py"))
            if not paths:
                return ""
            for path in paths:
                with path.open("rb") as file:
                    status, content = os.fstat(file.fileno()), file.read()
                if max(status.st_mtime, status.st_ctime) > loaded - SLACK_SECONDS:
                    return ""
                digest.update(f"\0{path.relative_to(package)}\0{len(content)}\0".encode() + content)
    except OSError:
        return ""
    return digest.hexdigest()


class ImportedModules:
    """Modules whose names begin so, with what they held when they were last looked at for the first time."""

    def __init__(self, *prefixes: str) -> None:
        self._prefixes = prefixes
        self._held: dict[str, tuple[dict[str, object], dict[str, object]]] = {}

    def remember(self) -> None:
        """Take what they hold now for what their sources say; of those that are known already nothing changes."""
        for name, module in tuple(sys.modules.items()):
            if name.startswith(self._prefixes) and name not in self._held:
                self._held[name] = vars(module), dict(vars(module))

    @property
    def are_known(self) -> bool:
        """Whether some were looked at."""
        return bool(self._held)

    def are_as_imported(self) -> bool:
        """False where somebody has given one another constant or function, as tests and experiments do.

        A package may have gained modules, which are its attributes as soon as they are imported.
        """
        try:
            return all(held.items() <= now.items() for now, held in self._held.values())
        except (ValueError, TypeError):  # values that cannot be compared, and so are not the same
            return False
