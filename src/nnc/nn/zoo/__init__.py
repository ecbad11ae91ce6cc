"""Networks that ship with nnc, as published: channels last, without dropout."""

from nnc.nn.zoo.compact import mobilenet_v2, squeezenet
from nnc.nn.zoo.densenet import densenet121, densenet201
from nnc.nn.zoo.diffusion import DiffusionUNet
from nnc.nn.zoo.digits import digits_network, lenet5
from nnc.nn.zoo.inception import inception_v1
from nnc.nn.zoo.language import BERT, GPT, bert_base, gpt2_small, gpt_6x384, gru_language_model, lstm_language_model
from nnc.nn.zoo.mobile import efficientnet_b0, mobilenet_v3_large, mobilenet_v3_small
from nnc.nn.zoo.networks import NETWORKS, Network, network
from nnc.nn.zoo.residual import resnet18, resnet20, resnet34, resnet50, resnet101, resnet152
from nnc.nn.zoo.segmentation import unet
from nnc.nn.zoo.shuffle import shufflenet_v2
from nnc.nn.zoo.vgg import vgg16, vgg19

__all__ = [
    "BERT",
    "DiffusionUNet",
    "GPT",
    "NETWORKS",
    "Network",
    "bert_base",
    "densenet121",
    "densenet201",
    "digits_network",
    "efficientnet_b0",
    "gpt2_small",
    "gpt_6x384",
    "gru_language_model",
    "inception_v1",
    "lenet5",
    "lstm_language_model",
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
    "unet",
    "vgg16",
    "vgg19",
]
