"""What Chrome's trace event format asks of each kind of event, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping

NUMBER = (int, float)
FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "X": {"name": str, "ts": NUMBER, "dur": NUMBER, "pid": int, "tid": int},
    "C": {"name": str, "ts": NUMBER, "pid": int, "args": dict},
    "i": {"name": str, "ts": NUMBER, "pid": int, "tid": int, "s": str},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}


def trace_faults(text: str | bytes) -> list[str]:
    """Events that lack a field or have one of another kind; numbers that are none are no JSON at all."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    events = json.loads(text, parse_constant=refuse)["traceEvents"]
    faults = [
        f"{field} of {event}"
        for event in events
        for field, kind in FIELDS[event["ph"]].items()
        if not isinstance(event.get(field), kind)
    ]
    return faults + [f"dur of {event}" for event in events if event.get("dur", 0) < 0]
