"""The class that ONNX's own backend tests ask for: `onnx.backend.test.BackendTest(nnc.onnx.backend.OnnxBackend, …)`."""

from __future__ import annotations

from typing import Any

from onnx.backend.base import Backend, BackendRep

import onnx
from nnc.onnx.file_loading import load
from nnc.onnx.runner import OnnxModel


class OnnxRunner(BackendRep):
    """A loaded model as ONNX's tests call it."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the file's order."""
        names = list(self.model.inputs)
        feeds = dict(inputs) if isinstance(inputs, dict) else dict(zip(names, inputs))
        feeds = {name: _elements(value) for name, value in feeds.items()}
        for name in names:
            feeds.setdefault(name, None)
        return tuple(self.model.run(feeds).values())


def _elements(value: Any) -> Any:
    """Arrays of messages, as the tests hand element types over that NumPy has not."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return [_elements(entry) for entry in value] if isinstance(value, list) else value


class OnnxBackend(Backend):
    """The interface of `onnx.backend.base.Backend`."""

    backend = ""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
        """True; what is not supported is an error of `prepare`."""
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> OnnxRunner:
        """The model, loaded."""
        return OnnxRunner(load(model, backend=cls.backend))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The CPU alone."""
        return device.startswith("CPU")
