"""Layers and functions under PyTorch's names beside PyTorch's own: the largest difference, one JSON line per case.

    python benchmarks/torch_layers.py          needs torch

A case is a function of `nn.functional`, and `network` four updates of a small network of layers with channels first
from PyTorch's own weights: `weights` and `statistics` are what its tensors are then off by.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

import nnc
import nnc.nn.functional as F
from nnc import nn

DRAW = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


IMAGES = numbers(2, 4, 9, 8)
CASES: tuple[tuple[str, dict[str, object]], ...] = (
    ("conv2d", {"weight": numbers(6, 2, 3, 2), "bias": numbers(6), "stride": (2, 1), "padding": (1, 0), "groups": 2}),
    ("conv2d", {"weight": numbers(6, 4, 3, 3), "padding": "same", "dilation": (1, 2)}),
    ("conv1d", {"input": numbers(2, 4, 11), "weight": numbers(6, 4, 3), "stride": 2, "padding": 2}),
    ("max_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("avg_pool2d", {"kernel_size": (3, 2), "padding": (1, 1)}),
    ("avg_pool2d", {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False}),
    ("adaptive_avg_pool2d", {"output_size": (3, 4)}),
    ("pad", {"pad": (1, 2, 0, 3), "value": 2.0}),
    ("pad", {"pad": (1, 2, 3, 1), "mode": "reflect"}),
    ("pad", {"pad": (1, 2, 3, 1), "mode": "replicate"}),
    ("pad", {"pad": (1, 2, 3, 1), "mode": "circular"}),
    ("interpolate", {"scale_factor": 2.0, "mode": "nearest"}),
    ("interpolate", {"size": (5, 11), "mode": "bilinear", "align_corners": False}),
    ("interpolate", {"size": (5, 11), "mode": "bilinear", "align_corners": True}),
    ("linear", {"weight": numbers(7, 8), "bias": numbers(7)}),
    ("embedding", {"input": np.array([[1, 2], [0, 4]]), "weight": numbers(5, 3)}),
    ("layer_norm", {"normalized_shape": (9, 8), "weight": numbers(9, 8), "bias": numbers(9, 8)}),
)
ATTENTION = {"query": numbers(2, 3, 5, 4), "key": numbers(2, 3, 5, 4), "value": numbers(2, 3, 5, 6)}
MASKS: tuple[dict[str, object], ...] = (
    {"is_causal": True},
    {"attn_mask": np.tri(5, dtype=bool)},
    {"attn_mask": numbers(5, 5), "scale": 0.3},
)


def compare(name: str, options: dict[str, object]) -> None:
    ours = getattr(F, name)(**options).numpy()
    given = {key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for key, value in options.items()}
    theirs = getattr(torch.nn.functional, name)(**given).numpy()
    assert ours.shape == theirs.shape
    print(json.dumps({"case": name, "largest": float(np.abs(ours - theirs).max())}))


def network(layers: Any) -> list[Any]:  # noqa: ANN401  # either module
    return [
        layers.Conv2d(4, 6, 3, padding=1),
        layers.BatchNorm2d(6),
        layers.ReLU(),
        layers.MaxPool2d(2),
        layers.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1),
        layers.AdaptiveAvgPool2d(1),
        layers.Flatten(),
        layers.Linear(4, 3),
    ]


def train() -> None:
    x, y = numbers(5, 4, 8, 8), np.array([0, 1, 2, 0, 1])
    theirs = torch.nn.Sequential(*network(torch.nn))
    ours = nn.Model(nn.Sequential(*network(nn)), (4, 8, 8), optimizer=nn.SGD(0.1, momentum=0.0))
    nn.load_torch_state_dict(ours, {name: tensor.numpy() for name, tensor in theirs.state_dict().items()})
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(theirs(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        optimizer.step()
        ours.train_on_batch(x, y)
    wanted = theirs.state_dict()
    off = {
        name: float(np.abs(values - wanted[name].numpy()).max()) for name, values in nn.torch_state_dict(ours).items()
    }
    weights, statistics = (
        max(value for name, value in off.items() if ("running" in name) is kept) for kept in (False, True)
    )
    print(json.dumps({"case": "network", "weights": weights, "statistics": statistics}))


SEQUENCES = numbers(5, 3, 4)
HIDDEN = np.triu(np.ones((5, 5), np.bool_), 1)
PADDING = np.array([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
MODULES: tuple[tuple[str, dict[str, object], dict[str, object]], ...] = (
    ("RNN", {"input_size": 4, "hidden_size": 6, "nonlinearity": "relu"}, {}),
    ("GRU", {"input_size": 4, "hidden_size": 6, "num_layers": 2, "bidirectional": True}, {}),
    ("GRU", {"input_size": 4, "hidden_size": 6, "bias": False, "batch_first": True}, {"hx": numbers(1, 5, 6)}),
    ("LSTM", {"input_size": 4, "hidden_size": 6, "num_layers": 2, "bidirectional": True}, {}),
    ("LSTM", {"input_size": 4, "hidden_size": 6, "bias": False, "batch_first": True}, {}),
    ("MultiheadAttention", {"embed_dim": 4, "num_heads": 2}, {"attn_mask": HIDDEN, "key_padding_mask": PADDING}),
    ("TransformerEncoderLayer", {"d_model": 4, "nhead": 2, "dim_feedforward": 8}, {"src_key_padding_mask": PADDING}),
    (
        "TransformerEncoderLayer",
        {"d_model": 4, "nhead": 2, "norm_first": True, "activation": "gelu"},
        {"src_mask": HIDDEN},
    ),
    ("TransformerDecoderLayer", {"d_model": 4, "nhead": 2, "dim_feedforward": 8}, {"tgt_mask": HIDDEN}),
    ("Transformer", {"d_model": 4, "nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 1}, {}),
    ("LayerNorm", {"normalized_shape": (3, 4)}, {}),
    ("GroupNorm", {"num_groups": 3, "num_channels": 3}, {}),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": 0}, {"input": np.array([[1, 2], [0, 4]])}),
)
INPUTS = {
    "MultiheadAttention": {"query": SEQUENCES, "key": SEQUENCES, "value": SEQUENCES},
    "TransformerEncoderLayer": {"src": SEQUENCES},
    "TransformerDecoderLayer": {"tgt": SEQUENCES, "memory": numbers(7, 3, 4)},
    "Transformer": {"src": numbers(7, 3, 4), "tgt": SEQUENCES},
    "Embedding": {},
}


def flat(values: Any) -> list[Any]:  # noqa: ANN401  # outputs of either
    return [part for value in values for part in flat(value)] if isinstance(values, tuple) else [values]


def module(name: str, options: dict[str, object], inputs: dict[str, object]) -> None:
    """Outputs and gradients of all weights, from PyTorch's own weights."""
    dropout = {} if name.endswith("Norm") or name == "Embedding" else {"dropout": 0.0}
    theirs = getattr(torch.nn, name)(**options, **dropout)
    ours = getattr(nn, name)(**options, **dropout)
    state = {key: tensor.numpy() for key, tensor in theirs.state_dict().items()}
    nn.load_torch_state_dict(ours, state)
    back = nn.torch_state_dict(ours)
    assert back.keys() == state.keys()
    assert all(np.array_equal(back[key], state[key]) for key in state)
    masks = {key: nnc.tensor(value) for key, value in inputs.items() if key != "input"}
    operands = INPUTS.get(name, {"input": SEQUENCES}) | ({"input": inputs["input"]} if "input" in inputs else {})
    first = [torch.from_numpy(value) for value in operands.values()]
    named = {key: torch.from_numpy(np.asarray(value)) for key, value in masks.items()}
    wanted, values = flat(theirs(*first, **named)), flat(ours(*map(nnc.tensor, operands.values()), **masks))
    pulls = [numbers(*value.shape) for value in wanted]
    sum((value * torch.from_numpy(pull)).sum() for value, pull in zip(wanted, pulls, strict=True)).backward()
    sum((value * pull).sum() for value, pull in zip(values, pulls, strict=True)).backward()
    outputs = max(float(np.abs(a.numpy() - b.detach().numpy()).max()) for a, b in zip(values, wanted, strict=True))
    own, gradients = dict(ours.named_parameters()), 0.0
    for key, parameter in theirs.named_parameters():
        gradient = own[key].grad.numpy()
        gradient = (
            gradient.T if gradient.shape != tuple(parameter.shape) or "weight_hh" in key or "_proj" in key else gradient
        )
        size = float(parameter.grad.abs().max()) or 1.0
        gradients = max(
            gradients, float(np.abs(gradient.reshape(parameter.shape) - parameter.grad.numpy()).max()) / size
        )
    print(json.dumps({"case": name, "options": str(options), "outputs": outputs, "gradients": gradients}))


def main() -> None:
    print(json.dumps({"torch": torch.__version__}))
    for name, options in CASES:
        compare(name, {"input": IMAGES} | options)
    for options in MASKS:
        compare("scaled_dot_product_attention", ATTENTION | options)
    for name, options, inputs in MODULES:
        module(name, options, inputs)
    train()


if __name__ == "__main__":
    main()
