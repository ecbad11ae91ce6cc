"""Networks that ship with nnc, as published: channels last, without dropout."""

from nnc.nn.zoo.compact import mobilenet_v2, squeezenet
from nnc.nn.zoo.densenet import densenet121, densenet201
from nnc.nn.zoo.diffusion import DiffusionUNet
from nnc.nn.zoo.digits import digits_network, lenet5
from nnc.nn.zoo.inception import inception_v1
from nnc.nn.zoo.language import (
    BERT,
    GPT,
    EncoderDecoder,
    LLaMA,
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
from nnc.nn.zoo.networks import NETWORKS, Network, network
from nnc.nn.zoo.residual import resnet18, resnet20, resnet34, resnet50, resnet101, resnet152
from nnc.nn.zoo.segmentation import unet
from nnc.nn.zoo.shufflenet import shufflenet_v2
from nnc.nn.zoo.vgg import vgg16, vgg19
from nnc.nn.zoo.vision_transformer import ViT, vit_b_16, vit_b_32, vit_h_14, vit_l_16

__all__ = [
    "BERT",
    "DiffusionUNet",
    "EncoderDecoder",
    "GPT",
    "LLaMA",
    "NETWORKS",
    "Network",
    "ViT",
    "bert_base",
    "bert_large",
    "densenet121",
    "densenet201",
    "digits_network",
    "efficientnet_b0",
    "gpt2_large",
    "gpt2_medium",
    "gpt2_small",
    "gpt2_xl",
    "gpt_6x384",
    "gru_language_model",
    "inception_v1",
    "lenet5",
    "llama2_7b",
    "llama3_8b",
    "lstm_language_model",
    "mistral_7b",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "network",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet20",
    "resnet34",
    "resnet50",
    "shufflenet_v2",
    "squeezenet",
    "tiny_llama",
    "transformer_base",
    "unet",
    "vgg16",
    "vgg19",
    "vit_b_16",
    "vit_b_32",
    "vit_h_14",
    "vit_l_16",
]
