"""The networks by name: how to build each, and what goes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nnc.classes import dataclass
from nnc.core.running.file_device import Folder
from nnc.core.values.dtype import F32, I32, DType
from nnc.core.values.spec import Shape
from nnc.errors import AttributeValueError
from nnc.nn.layers.layer import Input, Layer
from nnc.nn.model.model import Model
from nnc.nn.optimization.losses import Loss, MeanSquaredError
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.zoo.compact import mobilenet_v2, squeezenet
from nnc.nn.zoo.densenet import densenet121, densenet201
from nnc.nn.zoo.diffusion import DiffusionUNet
from nnc.nn.zoo.digits import digits_network, lenet5
from nnc.nn.zoo.inception import inception_v1
from nnc.nn.zoo.language import (
    bert_base,
    bert_large,
    gpt2_large,
    gpt2_medium,
    gpt2_small,
    gpt2_xl,
    gpt_6x384,
    gru_language_model,
    llama2_7b,
    llama3_8b,
    lstm_language_model,
    mistral_7b,
    tiny_llama,
    transformer_base,
)
from nnc.nn.zoo.mobile import efficientnet_b0, mobilenet_v3_large, mobilenet_v3_small
from nnc.nn.zoo.residual import resnet18, resnet20, resnet34, resnet50, resnet101, resnet152
from nnc.nn.zoo.segmentation import unet
from nnc.nn.zoo.shufflenet import shufflenet_v2
from nnc.nn.zoo.vgg import vgg16, vgg19
from nnc.nn.zoo.vision_transformer import vit_b_16, vit_b_32, vit_h_14, vit_l_16
from nnc.symbolic import Arena

IMAGENET = (224, 224, 3)


@dataclass(frozen=True, slots=True)
class Network:
    """A layer to build, the shape and element type of one input, and the number of parameters as published.

    One of several inputs has an `Input` for each in the place of the shape.
    """

    build: Callable[[], Layer]
    input_shape: Shape | tuple[Input, ...]
    parameters: int
    input_dtype: DType = F32
    loss: Loss | None = None


NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "digits": Network(digits_network, (8, 8, 1), 62_250),
        "lenet5": Network(lenet5, (28, 28, 1), 61_706),
        "resnet18": Network(resnet18, IMAGENET, 11_689_512),
        "resnet20": Network(resnet20, (32, 32, 3), 269_722),
        "resnet34": Network(resnet34, IMAGENET, 21_797_672),
        "resnet50": Network(resnet50, IMAGENET, 25_557_032),
        "resnet101": Network(resnet101, IMAGENET, 44_549_160),
        "resnet152": Network(resnet152, IMAGENET, 60_192_808),
        "densenet121": Network(densenet121, IMAGENET, 7_978_856),
        "densenet201": Network(densenet201, IMAGENET, 20_013_928),
        "squeezenet": Network(squeezenet, IMAGENET, 1_235_496),
        "mobilenet_v2": Network(mobilenet_v2, IMAGENET, 3_504_872),
        "mobilenet_v3_small": Network(mobilenet_v3_small, IMAGENET, 2_542_856),
        "mobilenet_v3_large": Network(mobilenet_v3_large, IMAGENET, 5_483_032),
        "efficientnet_b0": Network(efficientnet_b0, IMAGENET, 5_288_548),
        "shufflenet_v2": Network(shufflenet_v2, IMAGENET, 2_278_604),
        "inception_v1": Network(inception_v1, IMAGENET, 6_624_904),
        "vgg16": Network(vgg16, IMAGENET, 138_357_544),
        "vgg19": Network(vgg19, IMAGENET, 143_667_240),
        "unet": Network(unet, (256, 256, 3), 31_037_698),
        "diffusion_unet": Network(
            DiffusionUNet, (Input((32, 32, 3)), Input((1,))), 35_746_307, loss=MeanSquaredError()
        ),
        "transformer_base": Network(transformer_base, (Input((128,), I32), Input((128,), I32)), 63_084_544, I32),
        "gru": Network(gru_language_model, (35,), 18_087_800, I32),
        "lstm": Network(lstm_language_model, (35,), 19_775_200, I32),
        "gpt_6x384": Network(gpt_6x384, (256,), 10_745_088, I32),
        "gpt2_small": Network(gpt2_small, (1024,), 124_439_808, I32),
        "gpt2_medium": Network(gpt2_medium, (1024,), 354_823_168, I32),
        "gpt2_large": Network(gpt2_large, (1024,), 774_030_080, I32),
        "gpt2_xl": Network(gpt2_xl, (1024,), 1_557_611_200, I32),
        "llama2_7b": Network(llama2_7b, (4096,), 6_738_415_616, I32),
        "llama3_8b": Network(llama3_8b, (8192,), 8_030_261_248, I32),
        "tiny_llama": Network(tiny_llama, (2048,), 1_100_048_384, I32),
        "mistral_7b": Network(mistral_7b, (4096,), 7_241_732_096, I32),
        "bert_base": Network(bert_base, (512,), 109_482_240, I32),
        "bert_large": Network(bert_large, (512,), 335_141_888, I32),
        "vit_b_16": Network(vit_b_16, IMAGENET, 86_567_656),
        "vit_b_32": Network(vit_b_32, IMAGENET, 88_224_232),
        "vit_l_16": Network(vit_l_16, IMAGENET, 304_326_632),
        "vit_h_14": Network(vit_h_14, IMAGENET, 632_045_800),
    }
)


def network(
    name: str,
    *,
    optimizer: Optimizer | None = None,
    seed: int = 0,
    backend: str = "",
    memory_limit: int | None = None,
    offload_folder: Folder | None = None,
    arena: Arena | None = None,
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
        loss=row.loss,
        optimizer=optimizer,
        seed=seed,
        input_dtype=row.input_dtype,
        backend=backend,
        memory_limit=memory_limit,
        offload_folder=offload_folder,
        arena=arena,
    )
