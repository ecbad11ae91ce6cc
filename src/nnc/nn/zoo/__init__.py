"""Networks that ship with nnc, as published: channels last, without dropout."""

from nnc.nn.zoo.compact import mobilenet_v2, squeezenet
from nnc.nn.zoo.densenet import densenet121
from nnc.nn.zoo.digits import digits_network
from nnc.nn.zoo.language import BERT, GPT, bert_base, gpt2_small, gpt_6x384, lstm_language_model
from nnc.nn.zoo.networks import NETWORKS, Network, network
from nnc.nn.zoo.residual import resnet20, resnet50
from nnc.nn.zoo.segmentation import unet
from nnc.nn.zoo.vgg import vgg19

__all__ = [
    "BERT",
    "GPT",
    "NETWORKS",
    "Network",
    "bert_base",
    "densenet121",
    "digits_network",
    "gpt2_small",
    "gpt_6x384",
    "lstm_language_model",
    "mobilenet_v2",
    "network",
    "resnet20",
    "resnet50",
    "squeezenet",
    "unet",
    "vgg19",
]
