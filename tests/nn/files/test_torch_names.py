"""State dictionaries with PyTorch's names and layouts (`benchmarks/torch_parity.py` has outputs beside torch's)."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.errors import FormatError

NETWORK = nn.Sequential(
    nn.Convolution(5, 3),
    nn.BatchNorm(),
    nn.ReLU(),
    nn.ConvolutionTranspose(4, 2, 2),
    nn.GroupNorm(2),
    nn.Flatten(),
    head=nn.Dense(3),
)


def model(seed: int = 0) -> nn.Model:
    return nn.Model(NETWORK, (4, 4, 2), seed=seed, backend="reference")


def test_names_and_shapes_are_those_of_pytorch() -> None:
    assert {name: array.shape for name, array in nn.torch_state_dict(model()).items()} == {
        "0.weight": (5, 2, 3, 3),
        "0.bias": (5,),
        "1.weight": (5,),
        "1.bias": (5,),
        "1.running_mean": (5,),
        "1.running_var": (5,),
        "3.weight": (5, 4, 2, 2),
        "3.bias": (4,),
        "4.weight": (4,),
        "4.bias": (4,),
        "head.weight": (3, 256),
        "head.bias": (3,),
    }


def test_filters_of_volumes_have_their_channels_in_front() -> None:
    net = nn.Sequential(nn.Convolution3D(4, (3, 2, 1)), nn.ConvolutionTranspose3D(5, (1, 2, 3)))
    volumes = nn.Model(net, (4, 4, 4, 2), backend="reference")
    found, ours = nn.torch_state_dict(volumes), volumes.state_dict()
    np.testing.assert_array_equal(found["0.weight"], np.einsum("dhwio->oidhw", ours["0.weight"]))
    np.testing.assert_array_equal(found["1.weight"], np.einsum("dhwoi->iodhw", ours["1.weight"]))


def test_both_ways_are_the_same_bits() -> None:
    one, other = model(1), model(2)
    theirs = {f"net.{name}": array for name, array in nn.torch_state_dict(one).items()}
    theirs["net.1.num_batches_tracked"] = np.array(7)
    assert nn.load_torch_state_dict(other, theirs, rename={r"^net\.": ""}).complete
    for path, array in one.state_dict().items():
        assert array.tobytes() == other.state_dict()[path].tobytes()


def test_a_recurrent_network_has_one_bias_of_two() -> None:
    def language(seed: int) -> nn.Model:
        net = nn.Sequential(nn.Embedding(7, 4), memory=nn.LSTM(3, layers=2), out=nn.Dense(7))
        return nn.Model(net, (5,), input_dtype=I32, seed=seed, backend="reference")

    one, other = language(1), language(2)
    theirs = nn.torch_state_dict(one)
    assert {name: theirs[f"memory.{name}"].shape for name in ("weight_ih_l0", "weight_hh_l1", "bias_hh_l1")} == {
        "weight_ih_l0": (12, 4),
        "weight_hh_l1": (12, 3),
        "bias_hh_l1": (12,),
    }
    theirs["memory.bias_hh_l0"] = np.ones(12, np.float32)
    nn.load_torch_state_dict(other, theirs)
    np.testing.assert_array_equal(other.state_dict()["memory.0.bias"], one.state_dict()["memory.0.bias"] + 1)
    np.testing.assert_array_equal(other.state_dict()["memory.1.bias"], one.state_dict()["memory.1.bias"])


def test_what_does_not_fit_is_told_in_the_model_s_paths() -> None:
    theirs = nn.torch_state_dict(model())
    theirs["head.weight"] = theirs["head.weight"][:2]
    theirs["more"] = theirs.pop("1.running_var")
    with pytest.raises(FormatError, match=r"missing: 1.running_variance; unexpected: more; of another shape: head.w"):
        nn.load_torch_state_dict(model(), theirs)
    report = nn.load_torch_state_dict(model(), theirs, strict=False)
    assert (report.missing, report.unexpected, report.other_shape) == (
        ("1.running_variance",),
        ("more",),
        ("head.weight",),
    )
    with pytest.raises(FormatError, match="two tensors of name x"):
        nn.load_torch_state_dict(model(), theirs, rename={".*": "x"})
