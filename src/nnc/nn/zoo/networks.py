"""The networks by name: how to build each, and what goes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nnc.core.dtype import F32, I32, DType
from nnc.core.spec import Shape
from nnc.errors import AttributeValueError
from nnc.nn.layer import Layer
from nnc.nn.model import Model
from nnc.nn.optimizers import Optimizer
from nnc.nn.zoo.compact import mobilenet_v2, squeezenet
from nnc.nn.zoo.densenet import densenet121
from nnc.nn.zoo.digits import digits_network
from nnc.nn.zoo.language import bert_base, gpt2_small, gpt_6x384, lstm_language_model
from nnc.nn.zoo.residual import resnet20, resnet50
from nnc.nn.zoo.segmentation import unet
from nnc.nn.zoo.vgg import vgg19

IMAGENET = (224, 224, 3)


@dataclass(frozen=True, slots=True)
class Network:
    """A layer to build, the shape and element type of one input, and the number of parameters as published."""

    build: Callable[[], Layer]
    input_shape: Shape
    parameters: int
    input_dtype: DType = F32


NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "digits": Network(digits_network, (8, 8, 1), 62_250),
        "resnet20": Network(resnet20, (32, 32, 3), 269_722),
        "resnet50": Network(resnet50, IMAGENET, 25_557_032),
        "densenet121": Network(densenet121, IMAGENET, 7_978_856),
        "squeezenet": Network(squeezenet, IMAGENET, 1_235_496),
        "mobilenet_v2": Network(mobilenet_v2, IMAGENET, 3_504_872),
        "vgg19": Network(vgg19, IMAGENET, 143_667_240),
        "unet": Network(unet, (256, 256, 3), 31_037_698),
        "lstm": Network(lstm_language_model, (35,), 19_775_200, I32),
        "gpt_6x384": Network(gpt_6x384, (256,), 10_745_088, I32),
        "gpt2_small": Network(gpt2_small, (1024,), 124_439_808, I32),
        "bert_base": Network(bert_base, (512,), 109_482_240, I32),
    }
)


def network(
    name: str,
    *,
    optimizer: Optimizer | None = None,
    seed: int = 0,
    backend: str = "",
    memory_limit: int | None = None,
) -> Model:
    """The model `name` of `NETWORKS`; its tensors are made when they are first needed.

    >>> network("digits").output_shape
    (10,)
    """
    if name not in NETWORKS:
        raise AttributeValueError("network", got=name, need=", ".join(NETWORKS))
    row = NETWORKS[name]
    return Model(
        row.build(),
        row.input_shape,
        optimizer=optimizer,
        seed=seed,
        input_dtype=row.input_dtype,
        backend=backend,
        memory_limit=memory_limit,
    )
