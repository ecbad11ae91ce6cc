"""Which versions of what are at work."""

from __future__ import annotations

import platform
from importlib import metadata

from nnc import __version__

DISTRIBUTIONS = ("numpy", "llvmlite", "safetensors", "ml_dtypes", "typer", "rich")


def versions() -> dict[str, str]:
    """nnc, Python and each package that nnc stands on; `absent` for one that cannot be found."""
    return {
        "nnc": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in DISTRIBUTIONS},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
