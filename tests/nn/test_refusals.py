"""What constructors of models refuse: a value of a wrong type or out of its range is an error that names it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from nnc import nn
from nnc.errors import ArgumentError

NAN, INFINITE = math.nan, math.inf
# Constructor, the argument in question, values that it refuses.
ROWS: tuple[tuple[Callable[..., object], str, tuple[object, ...]], ...] = (
    (nn.Dense, "units", ("a", -1, 0, 2.5, None, True, (3,))),
    (lambda bias: nn.Dense(1, bias), "bias", ("no", 2)),
    (nn.Convolution, "filters", (0, "8")),
    (lambda kernel: nn.Convolution(2, kernel), "kernel", ((3, 1), 0, "same")),
    (lambda stride: nn.Convolution(2, stride=stride), "stride", (0, -1)),
    (lambda padding: nn.Convolution(2, padding=padding), "padding", ("valid", -1, 0.5)),
    (lambda dilation: nn.Convolution(2, dilation=dilation), "dilation", (0,)),
    (lambda output_padding: nn.ConvolutionTranspose(2, output_padding=output_padding), "output_padding", (-1,)),
    (nn.MaxPool, "kernel", (0, (2, 2), "2")),
    (nn.AveragePool, "kernel", (-2,)),
    (nn.Upsample, "factor", (0, 1.5)),
    (nn.Embedding, "count", (0,)),
    (lambda dtype: nn.Embedding(2, 2, dtype=dtype), "dtype", ("f32",)),
    (nn.PositionEmbedding, "steps", (0, "x")),
    (nn.LSTM, "units", (0, [4])),
    (lambda layers: nn.LSTM(2, layers=layers), "layers", (0,)),
    (nn.MultiHeadAttention, "heads", (0,)),
    (nn.TransformerBlock, "heads", (0,)),
    (lambda hidden: nn.TransformerBlock(2, hidden), "hidden", (-1,)),
    (lambda activation: nn.TransformerBlock(2, activation=activation), "activation", ("gelu", nn.GELU)),
    (nn.BatchNorm, "momentum", (1.5, NAN, -0.1)),
    (lambda epsilon: nn.BatchNorm(epsilon=epsilon), "epsilon", (0.0, -1.0, NAN, INFINITE)),
    (nn.GroupNorm, "groups", (0, 1.0)),
    (nn.Clamp, "low", (NAN, "0", INFINITE)),
    (nn.PadChannels, "before", (-1,)),
    (nn.Constant, "value", (NAN, -1.0, INFINITE, "0.1")),
    (lambda steps: nn.Cosine(0.1, steps), "steps", (0, 10.0)),
    (lambda end: nn.Cosine(0.1, 10, end), "end", (-0.1, NAN)),
    (nn.Adam, "rate", (NAN, -1e-3, INFINITE, "0.1", None, nn.Constant)),
    (lambda beta1: nn.Adam(beta1=beta1), "beta1", (1.0, -0.1, NAN)),
    (lambda beta2: nn.AdamW(beta2=beta2), "beta2", (1.0, 2)),
    (lambda epsilon: nn.Adam(epsilon=epsilon), "epsilon", (0.0, INFINITE)),
    (lambda decay: nn.AdamW(decay=decay), "decay", (-0.01, NAN)),
    (lambda momentum: nn.SGD(momentum=momentum), "momentum", (1.0, NAN)),
    (lambda alpha: nn.RMSProp(alpha=alpha), "alpha", (1.0,)),
    (lambda rate: nn.Lion(rate), "rate", (-1,)),
    (lambda rules: nn.PerParameter(nn.Adam(), rules), "rules", ("*.bias", (("*.bias", "Adam"),))),
    (lambda default: nn.PerParameter(default, ()), "default", ("adam", nn.Adam)),
)  # fmt: skip
CASES = [(make, name, value) for make, name, values in ROWS for value in values]


@pytest.mark.parametrize(("make", "name", "value"), CASES)
def test_a_constructor_names_the_argument_that_it_refuses(
    make: Callable[..., object], name: str, value: object
) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(value) if isinstance(make, type) else make(**{name: value})
    assert caught.value.got.startswith(f"{name}=")
    assert caught.value.need
    assert "test_refusals.py" in caught.value.origin
