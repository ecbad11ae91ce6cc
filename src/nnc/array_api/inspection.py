"""What the namespace can do, in the standard's words."""

from __future__ import annotations

from nnc.array_api.data_types import EVERY, KINDS
from nnc.core.running.device_context import devices
from nnc.core.values.device import Device, current_device
from nnc.core.values.dtype import C64, F32, I64, DType
from nnc.errors import DTypeError


class NamespaceInfo:
    """Capabilities, devices and element types."""

    def capabilities(self) -> dict[str, bool | int]:
        """Masks choose; sizes may depend on values; up to eight axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Device:
        """Where arrays are made: in a context that of its device."""
        return current_device()

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, DType]:
        """The types of Python's numbers."""
        return {"real floating": F32, "complex floating": C64, "integral": I64, "indexing": I64}

    def devices(self) -> list[Device]:
        """All devices."""
        return [*devices()]

    def dtypes(self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Element types by name, of a kind or of several."""
        if kind is None:
            return dict(EVERY)
        kinds = (kind,) if isinstance(kind, str) else kind
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise DTypeError("dtypes", got=", ".join(map(repr, unknown)), need=" or ".join(map(repr, KINDS)))
        return {name: dtype for name, dtype in EVERY.items() if any(name in KINDS[kind] for kind in kinds)}
