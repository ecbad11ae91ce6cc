"""Arenas of libraries for a microcontroller beside those of TFLite Micro, for the same networks with the same ports.

    python benchmarks/library_arenas.py --ours > ours.txt                  where nnc is
    python benchmarks/library_arenas.py                                   where tensorflow and tflite-micro are

One JSON line per network. TFLite Micro says no size beforehand: `arena` is the least, to 256 bytes, with which its
interpreter of this processor, whose pointers are of 64 bits, is made and runs once. Ours is that of
`thumbv7em,small`, with copies of the input and the output inside, as theirs.
"""

# ruff: noqa: ANN401, PLC0415  the peer may be absent, so nothing here can name its types

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np

MOST, STEP = 4 << 20, 256


def digits(keras: Any) -> Any:
    """As `nnc.nn.zoo` has it."""
    layers, same = keras.layers, {"padding": "same", "activation": "relu"}
    hidden = [layers.Conv2D(32, 3, **same), layers.Conv2D(32, 3, **same), layers.MaxPool2D()]
    hidden += [layers.Conv2D(64, 3, **same), layers.MaxPool2D(), layers.Flatten()]
    hidden += [layers.Dense(128, activation="relu"), layers.Dense(10)]
    return keras.Sequential([layers.Input((8, 8, 1), batch_size=1), *hidden])


def resnet20(keras: Any) -> Any:
    """Normalization is inside of convolutions, as any converter has it for inference."""
    layers, start = keras.layers, keras.layers.Input((32, 32, 3), batch_size=1)
    x, channels = layers.Conv2D(16, 3, padding="same", activation="relu")(start), 16
    for width, stride in ((16, 1), (16, 1), (16, 1), (32, 2), (32, 1), (32, 1), (64, 2), (64, 1), (64, 1)):
        y = layers.Conv2D(width, 3, strides=stride, padding="same", activation="relu")(x)
        y = layers.Conv2D(width, 3, padding="same")(y)
        x = layers.AveragePooling2D(1, stride)(x) if stride > 1 else x
        x = keras.ops.pad(x, [[0, 0], [0, 0], [0, 0], [0, width - channels]]) if width > channels else x
        x, channels = layers.ReLU()(layers.Add()([x, y])), width
    return keras.Model(start, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


NETWORKS: dict[str, Callable[[Any], Any]] = {"digits": digits, "resnet20": resnet20}


def runs(runtime: Any, content: bytes, image: np.ndarray, nbytes: int) -> bool:
    """Whether an arena is large enough."""
    try:
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=nbytes)
        interpreter.set_input(image, 0)
        interpreter.invoke()
    except RuntimeError:
        return False
    return True


def theirs(name: str) -> dict[str, object]:
    import tensorflow
    from tflite_micro.python.tflite_micro import runtime

    model = NETWORKS[name](tensorflow.keras)
    content = tensorflow.lite.TFLiteConverter.from_keras_model(model).convert()
    image, small, enough = np.zeros(model.inputs[0].shape, np.float32), 0, MOST
    assert runs(runtime, content, image, enough)
    while enough - small > STEP:
        middle = (small + enough) // 2
        small, enough = (small, middle) if runs(runtime, content, image, middle) else (middle, enough)
    return {"network": name, "peer": "tflite-micro", "arena": enough}


def ours(name: str) -> dict[str, object]:
    from nnc import export
    from nnc.nn.zoo import network

    made = export.library(network(name), "network", target="thumbv7em,small")
    return {"network": name, "arena": made.arena_bytes, "code": made.code_bytes, "constants": made.constant_bytes}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", action="store_true")
    options = parser.parse_args()
    for name in NETWORKS:
        print(json.dumps(ours(name) if options.ours else theirs(name)), flush=True)


if __name__ == "__main__":
    main()
