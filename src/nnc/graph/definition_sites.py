"""Which module of the package defines something, and whether that module is still there.

Python forgets a module whose import ended in the middle, by Ctrl-C or for want of memory, and runs it anew when it is
asked for again: what it had registered by then is nobody's, and is registered once more.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import TypeAlias

Site: TypeAlias = dict[str, object]


def defining_site() -> Site | None:
    """The namespace of the module of nnc that is being imported; None for what functions and users define."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return frame.f_globals if str(frame.f_globals.get("__name__")).startswith("nnc.") else None
        frame = frame.f_back
    return None


def is_forgotten(site: Site | None) -> bool:
    """Whether the module's import ended before its end."""
    module = None if site is None else sys.modules.get(str(site["__name__"]))
    return site is not None and (module is None or vars(module) is not site)
