from __future__ import annotations

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import BOOL, I32
from nnc.errors import ArityError
from nnc.nn import Input, Layer, Model
from nnc.nn.zoo import BERT, GPT, EncoderDecoder, LLaMA, ViT

TOKENS = np.random.default_rng(0).integers(0, 11, (2, 6)).astype(np.int32)
SEEN = np.array([[True] * 6, [True] * 4 + [False] * 2])
SENTENCES = np.array([[0, 0, 0, 1, 1, 1]] * 2, np.int32)
PICTURES = np.random.default_rng(0).standard_normal((2, 8, 8, 3))

Given = tuple[np.ndarray, ...]
SMALL: dict[str, tuple[Layer, tuple[Input, ...], Given]] = {
    "gpt": (GPT(11, 8, 8, 2, 2), (Input((6,), I32),), (TOKENS,)),
    "llama": (LLaMA(11, 8, 2, 4, 2, 12, tied=True, window=4), (Input((6,), I32),), (TOKENS,)),
    "bert": (
        BERT(11, 8, 8, 1, 2, pooled=False),
        (Input((6,), I32), Input((6,), BOOL), Input((6,), I32)),
        (TOKENS, SEEN, SENTENCES),
    ),
    "encoder_decoder": (
        EncoderDecoder(11, 8, 1, 2),
        (Input((6,), I32), Input((6,), I32), Input((6,), BOOL)),
        (TOKENS, TOKENS[:, ::-1].copy(), SEEN),
    ),
    "vit": (ViT(3, patch=4, features=8, layers=1, heads=2), (Input((8, 8, 3)),), (PICTURES,)),
}


@pytest.mark.parametrize("name", SMALL)
def test_gradients_are_those_of_differences(name: str) -> None:
    layer, inputs, given = SMALL[name]
    model = Model(layer, inputs, loss=nn.MeanSquaredError(), backend="reference")
    generator = np.random.default_rng(1)
    values = given if len(given) > 1 else given[0]
    target = generator.standard_normal((2, *model.output_shape))
    before = model.state_dict()
    for path, array in before.items():
        before[path] = array + generator.normal(0.0, 0.2, array.shape)
    model.load_state_dict(before)
    model.backward(values, target)
    gradients = {path: np.array(one.numpy()) / 2 for path, one in model.gradients.items()}
    sense = {path: generator.standard_normal(array.shape) for path, array in before.items()}
    losses = []
    for step in (2e-3, -2e-3):
        model.load_state_dict({path: array + step * sense[path] for path, array in before.items()})
        losses.append(model.evaluate(values, target).loss)
    slope = sum(float((gradients[path] * sense[path]).sum()) for path in gradients)
    assert (losses[0] - losses[1]) / 4e-3 == pytest.approx(slope, rel=2e-2, abs=1e-3)


def test_what_a_mask_hides_changes_nothing() -> None:
    for name, hidden in (("bert", TOKENS), ("encoder_decoder", TOKENS)):
        layer, inputs, (tokens, *others) = SMALL[name]
        model = Model(layer, inputs, backend="reference")
        changed = hidden.copy()
        changed[1, 4:] = (changed[1, 4:] + 1) % 11
        one, other = model.predict((tokens, *others)), model.predict((changed, *others))
        end = 4 if name == "bert" else 6
        np.testing.assert_array_equal(one[:, :end], other[:, :end])


def test_an_encoder_and_a_decoder_have_as_many_parameters_as_those_of_pytorch() -> None:
    # torch.nn.Transformer(): 6 and 6 layers of 512 features, 8 heads, 2,048 hidden units.
    model = Model(EncoderDecoder(1), (Input((4,), I32), Input((4,), I32)))
    assert model.parameter_count() - 512 == 44_140_544


def test_inputs_too_many_or_too_few_are_told() -> None:
    with pytest.raises(ArityError, match="tokens, mask, sentences"):
        Model(BERT(11, 8, 8, 1, 2), (Input((6,), I32),) * 4)
    with pytest.raises(ArityError, match="source, target, and a mask"):
        Model(EncoderDecoder(11, 8, 1, 2), (6,), input_dtype=I32)
