"""`load`: a model of a file, of bytes, or of a message."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nnc.arguments import checked
from nnc.core.quantization_modes import QuantizationMode
from nnc.core.running.device_context import present
from nnc.core.running.late_names import LateModule
from nnc.core.values.device import AnyDevice, Device, current_device, device_of
from nnc.onnx.kept.opened_file import open_file
from nnc.onnx.made.kept_file import FileFacts, KeptFile, ModelFile
from nnc.onnx.runner import OnnxModel
from nnc.symbolic import Arena
from nnc.symbolic.sharing.program_disk import MODULES

if TYPE_CHECKING:
    from nnc.onnx import file as parsing
    from nnc.onnx.made import declared_inputs, making
else:
    # A file that another process of these sources has looked at is not parsed.
    parsing, declared_inputs = LateModule("nnc.onnx.file"), LateModule("nnc.onnx.made.declared_inputs")
    making = LateModule("nnc.onnx.made.making")


@runtime_checkable
class ModelMessage(Protocol):
    """ONNX's own message, `onnx.ModelProto`."""

    def SerializeToString(self) -> bytes:  # noqa: N802  # protobuf's name
        """Its bytes."""


@checked
def load(
    source: str | os.PathLike[str] | bytes | ModelMessage,
    sizes: Mapping[str, int] | None = None,
    *,
    backend: str = "",
    quantize: QuantizationMode | None = None,
    device: AnyDevice | None = None,
    arena: Arena | None = None,
    mapped: bool = False,
) -> OnnxModel:
    """The model in an ONNX file; FormatError for a file that is none, BackendError that lists what is not supported.

    With `quantize` the f32 weights of products and convolutions are 8-bit integers, as `nnc.nn.Model.freeze` has them.
    Weights and programs are on the `device`, or where arrays are made (`nnc.device`): arrays go there, results come
    back. What its programs compute lies in the `arena`, where one is shared (`nnc.arena`).

    External data is read at the first run, unless it is to be `mapped`: then pages of its files are read when they are
    touched. Nobody may change these meanwhile; where one was shortened, a run is a FormatError. Processes that map one
    model share its weights: what the file itself holds, and what is folded or packed, is in files of the cache folder.

    >>> nnc.onnx.save(nn.Model(nn.Dense(2), (3,)), "net.onnx")
    >>> model = nnc.onnx.load("net.onnx")
    >>> model.run({"x": np.ones((5, 3), np.float32)})["y"].shape
    (5, 2)
    """
    file = _opened(source, mapped)
    home = current_device() if device is None else present(device_of(device))
    made = OnnxModel(file, dict(sizes or {}), backend, quantize=quantize, device=home, arena=arena)
    if made.sizes:
        declared_inputs.check_sizes(made.inputs, made.sizes)
    return made


def _opened(source: str | os.PathLike[str] | bytes | ModelMessage, mapped: bool) -> ModelFile:
    """The file, parsed where no process of these sources has; BackendError for operators that are not supported."""
    opened = open_file(source, mapped=mapped) if isinstance(source, str | bytes | os.PathLike) else None
    facts = None if opened is None else FileFacts.of(opened)
    if opened is not None and facts is not None:
        return KeptFile(opened, facts)
    file = parsing.read(source, mapped=mapped) if opened is None else parsing.parsed(opened)  # type: ignore[arg-type]
    making.check_supported(file)
    FileFacts(file.name, file.output_names).keep(file.digest)
    return file


def load_again(
    data: bytes,
    sizes: Mapping[str, int],
    backend: str,
    quantize: QuantizationMode | None,
    device: Device,
    arena: Arena | None,
) -> OnnxModel:
    """The model of the bytes that a pickle holds."""
    return load(data, sizes, backend=backend, quantize=quantize, device=device, arena=arena)


MODULES.remember()
