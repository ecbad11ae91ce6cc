"""What takes a hook away again."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

H = TypeVar("H")


class HookHandle(Generic[H]):
    """A hook that can be taken away again; as a context it is there inside."""

    def __init__(self, hooks: list[H], hook: H) -> None:
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        """Call the hook no longer."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()
