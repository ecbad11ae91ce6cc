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


def main() -> None:
    print(json.dumps({"torch": torch.__version__}))
    for name, options in CASES:
        compare(name, {"input": IMAGES} | options)
    for options in MASKS:
        compare("scaled_dot_product_attention", ATTENTION | options)
    train()


if __name__ == "__main__":
    main()
