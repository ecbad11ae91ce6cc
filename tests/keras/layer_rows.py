"""What layers give for small arrays, written once for Keras itself and for `nnc.keras`.

`KERAS_BACKEND=jax python tests/keras/layer_rows.py tests/keras/layer_numbers.json` writes the numbers of Keras.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

random = np.random.default_rng(3)
IMAGE = random.standard_normal((2, 5, 4, 4)).astype("float32")
STEPS = random.standard_normal((2, 5, 3)).astype("float32")
ROWS = random.standard_normal((3, 4)).astype("float32")
WORDS = np.array([[1, 4, 2, 0, 0], [3, 0, 0, 0, 0]])
MASK = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], bool)
TAGS = np.array([[[1.0], [0.0], [1.0], [0.0], [1.0]], [[0.0], [1.0], [1.0], [1.0], [0.0]]], "float32")
Numbers = list[float]


def numbers(*values: Any) -> Numbers:
    """All elements, one value behind the other."""
    plain = [value.numpy() if hasattr(value, "numpy") else value for value in values]
    return [float(f"{x:.7g}") for value in plain for x in np.asarray(value, np.float64).ravel()]


def filled(layer: Any) -> None:
    """Weights that are neither zero nor alike; variances stay above zero."""
    drawn = np.random.default_rng(2)
    layer.set_weights([(drawn.random(weight.shape) * 0.5 + 0.1).astype("float32") for weight in layer.get_weights()])


def outputs(layer: Any, *values: Any, **options: Any) -> Numbers:
    layer(*values)
    filled(layer)
    made = layer(*values, **options)
    return numbers(*(made if isinstance(made, tuple | list) else [made]))


def in_training(layer: Any, value: Any) -> Numbers:
    """What it gives in training, and its weights then."""
    return [*outputs(layer, value, training=True), *numbers(*layer.get_weights())]


def fitted(keras: Any, layers: list[Any], targets: Any, loss: str) -> Numbers:
    """The loss, a metric, and all weights behind two updates of a model of words."""
    model = keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    filled(model)
    model.compile(keras.optimizers.SGD(0.5), loss, metrics=["mae"])
    model.fit(WORDS, targets, epochs=2, shuffle=False, verbose=0)
    return numbers(*model.evaluate(WORDS, targets, verbose=0), *model.get_weights())


def own_model(keras: Any) -> Numbers:
    """A subclass, whose layers tell masks without a word of it."""
    kit = keras.layers

    class Tagger(keras.Model):  # type: ignore[misc,name-defined]  # of either
        def __init__(self) -> None:
            super().__init__()
            self.words, self.steps = kit.Embedding(5, 3, mask_zero=True), kit.LSTM(2)

        def call(self, inputs: Any) -> Any:
            return self.steps(self.words(inputs))

    return outputs(Tagger(), WORDS)


def rows(keras: Any) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    yield from convolutions(keras.layers)
    yield from recurrent(keras.layers)
    yield from others(keras)
    yield from masked(keras)


def convolutions(kit: Any) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    for padding in ("same", "valid"):
        for stride in (1, 2):
            window = {"strides": stride, "padding": padding}
            for kind, value, args in (
                ("Conv2D", IMAGE, (2, (3, 2))),
                ("Conv2DTranspose", IMAGE, (2, (3, 2))),
                ("DepthwiseConv2D", IMAGE, (3,)),
                ("SeparableConv2D", IMAGE, (2, 3)),
                ("MaxPooling2D", IMAGE, (3,)),
                ("AveragePooling2D", IMAGE, (3,)),
                ("Conv1D", STEPS, (2, 3)),
                ("Conv1DTranspose", STEPS, (2, 3)),
                ("SeparableConv1D", STEPS, (2, 3)),
                ("MaxPooling1D", STEPS, (2,)),
                ("AveragePooling1D", STEPS, (2,)),
            ):
                yield (
                    f"{kind} {padding} {stride}",
                    lambda kind=kind, value=value, args=args, window=window: outputs(
                        getattr(kit, kind)(*args, **window), value
                    ),
                )
    yield "Conv2D dilated", lambda: outputs(kit.Conv2D(2, 2, dilation_rate=2, padding="same"), IMAGE)
    yield "Conv2D groups", lambda: outputs(kit.Conv2D(4, 3, groups=2, activation="gelu"), IMAGE)
    yield "Conv1D causal", lambda: outputs(kit.Conv1D(2, 3, padding="causal", dilation_rate=2), STEPS)
    yield "Conv3D", lambda: outputs(kit.Conv3D(2, (2, 3, 2), padding="same"), IMAGE[..., None])


def recurrent(kit: Any) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        made = getattr(kit, kind)
        yield kind, lambda made=made: outputs(made(2), STEPS)
        yield (
            f"{kind} sequences and states",
            lambda made=made: outputs(made(2, return_sequences=True, return_state=True), STEPS),
        )
        yield (
            f"{kind} backwards",
            lambda made=made: outputs(made(2, return_sequences=True, go_backwards=True, use_bias=False), STEPS),
        )
        yield f"{kind} masked", lambda made=made: outputs(made(2), STEPS, mask=MASK)
        yield (
            f"Bidirectional {kind}",
            lambda made=made: outputs(kit.Bidirectional(made(2, return_sequences=True)), STEPS),
        )
        yield f"Bidirectional sum {kind}", lambda made=made: outputs(kit.Bidirectional(made(2), "sum"), STEPS)


def others(keras: Any) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    kit = keras.layers
    for name in ("relu", "sigmoid", "tanh", "softmax", "gelu", "silu", "elu", "selu", "mish", "softplus", "softsign"):
        yield f"Dense {name}", lambda name=name: outputs(kit.Dense(3, name), ROWS)
    for name in ("relu6", "leaky_relu", "exponential", "hard_sigmoid", "hard_silu", "log_softmax"):
        yield f"activation {name}", lambda name=name: numbers(keras.activations.get(name)(keras.ops.array(3.0 * ROWS)))
    yield "BatchNormalization", lambda: outputs(kit.BatchNormalization(), IMAGE)
    yield "BatchNormalization in training", lambda: in_training(kit.BatchNormalization(momentum=0.9), IMAGE)
    yield "BatchNormalization without scale", lambda: in_training(kit.BatchNormalization(scale=False), ROWS)
    yield "LayerNormalization", lambda: outputs(kit.LayerNormalization(), IMAGE)
    yield "LayerNormalization of two axes", lambda: outputs(kit.LayerNormalization(axis=(1, 2)), STEPS)
    yield "GroupNormalization", lambda: outputs(kit.GroupNormalization(2), IMAGE)
    yield "UnitNormalization", lambda: outputs(kit.UnitNormalization(), ROWS)
    yield "MultiHeadAttention", lambda: outputs(kit.MultiHeadAttention(2, 3), STEPS, STEPS)
    yield (
        "MultiHeadAttention causal",
        lambda: outputs(kit.MultiHeadAttention(2, 3, output_shape=2), STEPS, STEPS, use_causal_mask=True),
    )
    yield (
        "MultiHeadAttention masked",
        lambda: outputs(kit.MultiHeadAttention(2, 3), STEPS, STEPS, attention_mask=MASK[:, None] & MASK[:, :, None]),
    )
    yield "Attention", lambda: outputs(kit.Attention(use_scale=True), [STEPS, STEPS])
    yield "AdditiveAttention", lambda: outputs(kit.AdditiveAttention(), [STEPS, STEPS])
    yield "Embedding", lambda: outputs(kit.Embedding(5, 3), WORDS)
    yield "TimeDistributed", lambda: outputs(kit.TimeDistributed(kit.Dense(2)), STEPS)
    yield "UpSampling2D", lambda: outputs(kit.UpSampling2D((2, 3), interpolation="bilinear"), IMAGE)
    yield "GlobalAveragePooling2D", lambda: outputs(kit.GlobalAveragePooling2D(), IMAGE)
    yield "GlobalMaxPooling1D", lambda: outputs(kit.GlobalMaxPooling1D(keepdims=True), STEPS)
    yield "ZeroPadding2D", lambda: outputs(kit.ZeroPadding2D(((1, 0), (0, 2))), IMAGE)
    yield "Cropping2D", lambda: outputs(kit.Cropping2D(((1, 0), (0, 2))), IMAGE)
    yield "Dot", lambda: outputs(kit.Dot(axes=(2, 2), normalize=True), [STEPS, STEPS])
    yield "PReLU", lambda: outputs(kit.PReLU(shared_axes=[1, 2]), IMAGE)


def masked(keras: Any) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    kit = keras.layers

    def words() -> Any:
        return kit.Embedding(5, 3, mask_zero=True)

    def attended() -> Numbers:
        start = keras.Input((None,), dtype="int32")
        x = words()(start)
        x = kit.MultiHeadAttention(2, 2)(x, x)
        return outputs(keras.Model(start, kit.GlobalAveragePooling1D()(x)), WORDS)

    def simply_attended() -> Numbers:
        start = keras.Input((None,), dtype="int32")
        x = words()(start)
        return outputs(keras.Model(start, kit.Attention()([x, x])), WORDS)

    def merged(merge: Callable[[Any], Any]) -> Callable[[], Numbers]:
        def of() -> Numbers:
            start = keras.Input((None,), dtype="int32")
            x = words()(start)
            return outputs(keras.Model(start, kit.LSTM(2)(merge([x, kit.Dense(3)(x)]))), WORDS)

        return of

    yield "mask LSTM", lambda: outputs(keras.Sequential([words(), kit.LSTM(2)]), WORDS)
    yield "mask nested", lambda: outputs(keras.Sequential([keras.Sequential([words()]), kit.GRU(2)]), WORDS)
    yield "mask Bidirectional", lambda: outputs(keras.Sequential([words(), kit.Bidirectional(kit.GRU(2))]), WORDS)
    yield "mask mean", lambda: outputs(keras.Sequential([words(), kit.GlobalAveragePooling1D()]), WORDS)
    yield "mask Masking", lambda: outputs(keras.Sequential([kit.Masking(), kit.LSTM(2)]), STEPS * MASK[..., None])
    yield "mask of a subclass", lambda: own_model(keras)
    yield "mask MultiHeadAttention", attended
    yield "mask Attention", simply_attended
    yield "mask Add", merged(kit.Add())
    yield "mask Concatenate", merged(kit.Concatenate())
    yield "mask lost by an operator", merged(lambda values: values[0] * 2.0)
    yield (
        "mask of a loss",
        lambda: fitted(keras, [words(), kit.LSTM(2, return_sequences=True), kit.Dense(1, "sigmoid")], TAGS, "bce"),
    )
    yield (
        "mask of a batch normalization",
        lambda: fitted(
            keras,
            [words(), kit.BatchNormalization(), kit.LSTM(2, return_sequences=True), kit.Dense(1, "sigmoid")],
            TAGS,
            "bce",
        ),
    )
    yield "mask of a mean", lambda: fitted(keras, [words(), kit.TimeDistributed(kit.Dense(1))], TAGS, "mse")
    yield from drawn(keras)
    yield from stepped(keras)


def drawn(keras: Any) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    """Layers that prepare data; random ones whose range is one number."""
    kit = keras.layers
    far: Any = {"fill_mode": "constant", "fill_value": 0.5}
    for name, layer, values in (
        ("Resizing", kit.Resizing(7, 3), IMAGE),
        ("Resizing nearest", kit.Resizing(3, 7, interpolation="nearest"), IMAGE),
        ("Resizing cropped", kit.Resizing(3, 4, crop_to_aspect_ratio=True), IMAGE),
        ("CenterCrop", kit.CenterCrop(3, 2), IMAGE),
        ("CenterCrop enlarged", kit.CenterCrop(7, 2), IMAGE),
        ("RandomRotation", kit.RandomRotation((0.1, 0.1)), IMAGE),
        ("RandomRotation constant", kit.RandomRotation((0.1, 0.1), **far), IMAGE),
        ("RandomZoom", kit.RandomZoom((0.2, 0.2), (-0.3, -0.3)), IMAGE),
        ("RandomTranslation wrap", kit.RandomTranslation((0.2, 0.2), (0.1, 0.1), fill_mode="wrap"), IMAGE),
        ("RandomTranslation nearest", kit.RandomTranslation((0.25, 0.25), (0.3, 0.3), fill_mode="nearest"), IMAGE),
        ("RandomBrightness", kit.RandomBrightness((0.1, 0.1)), IMAGE),
        ("Normalization", kit.Normalization(mean=[1.0] * 4, variance=[4.0] * 4), IMAGE),
        ("CategoryEncoding", kit.CategoryEncoding(5, "count"), WORDS),
        ("CategoryEncoding multi_hot", kit.CategoryEncoding(5, "multi_hot"), WORDS),
        ("Discretization", kit.Discretization([0.0, 1.0]), ROWS),
        ("Discretization one_hot", kit.Discretization([0.0, 1.0], output_mode="one_hot"), ROWS[:, :1]),
    ):
        training = {"training": True} if name.startswith("Random") else {}
        yield name, lambda layer=layer, values=values, training=training: numbers(layer(values, **training))


def stepped(keras: Any) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    """Recurrent layers of other functions than tanh and sigmoid, cells, and what is new besides."""
    kit = keras.layers
    frames = np.stack([IMAGE, IMAGE[::-1]], 1)
    yield "LSTM relu", lambda: outputs(kit.LSTM(2, activation="relu", go_backwards=True, return_sequences=True), STEPS)
    yield "GRU before", lambda: outputs(kit.GRU(2, reset_after=False), STEPS, mask=MASK)
    yield "GRU hard_sigmoid", lambda: outputs(kit.GRU(2, recurrent_activation="hard_sigmoid", use_bias=False), STEPS)
    yield "SimpleRNN elu", lambda: outputs(kit.SimpleRNN(2, activation="elu", return_state=True), STEPS)
    yield "RNN LSTMCell", lambda: outputs(kit.RNN(kit.LSTMCell(2)), STEPS, mask=MASK)
    yield "RNN GRUCell", lambda: outputs(kit.RNN(kit.GRUCell(2), return_sequences=True), STEPS)
    yield "RNN cells", lambda: outputs(kit.RNN([kit.LSTMCell(2), kit.SimpleRNNCell(3)]), STEPS)
    yield "ConvLSTM2D", lambda: outputs(kit.ConvLSTM2D(1, 2, padding="same", return_sequences=True), frames)
    yield "ConvLSTM1D", lambda: outputs(kit.ConvLSTM1D(1, 2, strides=2, go_backwards=True), IMAGE)
    yield "EinsumDense", lambda: outputs(kit.EinsumDense("abc,cde->abde", (None, 2, 2), bias_axes="de"), STEPS)
    yield "RMSNormalization", lambda: outputs(kit.RMSNormalization(), ROWS)
    yield "Conv3DTranspose", lambda: outputs(kit.Conv3DTranspose(1, 2, strides=2), IMAGE[..., None])
    yield "UpSampling3D", lambda: outputs(kit.UpSampling3D((1, 2, 1)), IMAGE[:1, ..., None])
    yield "ZeroPadding3D", lambda: outputs(kit.ZeroPadding3D((1, 0, 1)), IMAGE[:1, ..., None])


if __name__ == "__main__":
    import keras as theirs

    Path(sys.argv[1]).write_text(
        "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(row())}" for name, row in rows(theirs)) + "\n}\n"
    )
