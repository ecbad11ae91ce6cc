"""Numbers and texts that a file says of its model, by key: of a config.json, or metadata of GGUF without its prefix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nnc.classes import dataclass
from nnc.errors import FormatError

# No size of a model is larger.
MOST = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class GivenValues:
    """GivenValues under the names of one kind of file or the other; null is as if it were absent."""

    place: str
    held: Mapping[str, object]

    def _first(self, keys: Sequence[str]) -> tuple[str, object]:
        return next(((key, self.held[key]) for key in keys if self.held.get(key) is not None), (keys[0], None))

    def _refused(self, key: str, need: str, value: object) -> FormatError:
        got = f"no {key}" if value is None else f"{key} that is {type(value).__name__}"
        return FormatError(self.place, got=got, need=need)

    def integer(self, *keys: str, default: int | None = None) -> int:
        """The first of these keys that is there."""
        key, value = self._first(keys)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise self._refused(key, "an integer ≥ 0", value)
        return value

    def number(self, *keys: str, default: float | None = None) -> float:
        """A finite number."""
        key, value = self._first(keys)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise self._refused(key, "a finite number", value)
        return float(value)

    def text(self, *keys: str, default: str | None = None) -> str:
        """A text."""
        key, value = self._first(keys)
        value = default if value is None else value
        if not isinstance(value, str):
            raise self._refused(key, "a text", value)
        return value

    def flag(self, *keys: str, default: bool) -> bool:
        """A truth value."""
        key, value = self._first(keys)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self._refused(key, "true or false", value)
        return value

    def texts(self, *keys: str) -> tuple[str, ...]:
        """A list of texts; empty where there is none."""
        key, value = self._first(keys)
        value = [] if value is None else value
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise self._refused(key, "a list of texts", value)
        return tuple(value)

    def numbers(self, *keys: str) -> tuple[float, ...]:
        """A list of finite numbers; empty where there is none."""
        key, value = self._first(keys)
        value = [] if value is None else value
        fits = isinstance(value, list | tuple) and all(isinstance(each, int | float) for each in value)
        if not isinstance(value, list | tuple) or not fits or not all(map(math.isfinite, value)):
            raise self._refused(key, "a list of numbers", value)
        return tuple(map(float, value))

    def inside(self, *keys: str) -> GivenValues:
        """An object inside; empty where there is none."""
        key, value = self._first(keys)
        if value is not None and not isinstance(value, dict):
            raise self._refused(key, "an object", value)
        return GivenValues(f"{self.place}: {key}", value or {})

    def has(self, *keys: str) -> bool:
        """Whether one of them is there."""
        return self._first(keys)[1] is not None
