"""What Keras lets one ask and set for all models: numbers are float32, images have channels last, epsilon is 1e-7."""

from __future__ import annotations

from typing import NoReturn

from nnc.keras.named import refused


def floatx() -> str:
    """The type of weights and of what is computed."""
    return "float32"


def epsilon() -> float:
    """What is added where a division by zero would be."""
    return 1e-7


def image_data_format() -> str:
    """Where images have their channels."""
    return "channels_last"


def backend() -> str:
    """Who computes."""
    return "nnc"


def _only(subject: str, value: object, known: object, fix: str) -> None:
    if value != known:
        raise refused(subject, "value", value, fix)


def set_floatx(value: str) -> None:
    """ArgumentError for anything but float32."""
    _only("set_floatx", value, "float32", "nnc.nn.Model(model, shape, precision=nnc.bf16)")


def set_image_data_format(data_format: str) -> None:
    """ArgumentError for anything but channels_last."""
    _only("set_image_data_format", data_format, "channels_last", "x.transpose(0, 2, 3, 1), or nn.Conv2d")


def set_epsilon(value: float) -> NoReturn:
    """ArgumentError: layers and optimizers take it each."""
    raise refused("set_epsilon", "value", value, "epsilon=… of the layer or the optimizer")
