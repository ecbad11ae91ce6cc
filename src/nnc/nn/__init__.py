"""L5: models made of layers, trained, evaluated, saved and used.

A name is public where its module lists it (`__all__`), or below. Its module is imported when it is first used.
"""

from typing import TYPE_CHECKING

from nnc.faces import face, homes
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

if TYPE_CHECKING:
    from nnc.dynamic.transforms.differentiation import value_and_grad as value_and_grad
    from nnc.nn import functional as functional
    from nnc.nn import init as init
    from nnc.nn import initializers as initializers
    from nnc.nn import losses as losses
    from nnc.nn import optim as optim
    from nnc.nn import utils as utils
    from nnc.nn.callbacks.callbacks import *
    from nnc.nn.callbacks.event_files import *
    from nnc.nn.callbacks.progress_bar import *
    from nnc.nn.callbacks.rate_finder import *
    from nnc.nn.criteria import *
    from nnc.nn.files.checkpoint import Position as Position
    from nnc.nn.files.checkpoint import load_checkpoint as load_checkpoint
    from nnc.nn.files.checkpoint import position_of as position_of
    from nnc.nn.files.checkpoint import read_notes as read_notes
    from nnc.nn.files.checkpoint import read_position as read_position
    from nnc.nn.files.checkpoint import save_checkpoint as save_checkpoint
    from nnc.nn.files.model_spec import load_model as load_model
    from nnc.nn.files.pretrained import HUGGING_FACE as HUGGING_FACE
    from nnc.nn.files.pretrained import NameRule as NameRule
    from nnc.nn.files.pretrained import load_pretrained as load_pretrained
    from nnc.nn.files.torch_names import load_torch_state_dict as load_torch_state_dict
    from nnc.nn.files.torch_names import torch_state_dict as torch_state_dict
    from nnc.nn.functional import elu as elu
    from nnc.nn.functional import leaky_relu as leaky_relu
    from nnc.nn.functional import one_hot as one_hot
    from nnc.nn.functional import silu as silu
    from nnc.nn.generation import generate as generate
    from nnc.nn.generation import stream as stream
    from nnc.nn.inference.frozen_generation import FrozenGeneration as FrozenGeneration
    from nnc.nn.layers.activation import *
    from nnc.nn.layers.attention import *
    from nnc.nn.layers.batch_norm import *
    from nnc.nn.layers.combine import *
    from nnc.nn.layers.convolution import *
    from nnc.nn.layers.dense import *
    from nnc.nn.layers.embedding import *
    from nnc.nn.layers.functional import *
    from nnc.nn.layers.initialized import *
    from nnc.nn.layers.layer import *
    from nnc.nn.layers.lora import *
    from nnc.nn.layers.normalization import *
    from nnc.nn.layers.parallel_layers import *
    from nnc.nn.layers.pooling import *
    from nnc.nn.layers.random import *
    from nnc.nn.layers.recomputed import *
    from nnc.nn.layers.shape import *
    from nnc.nn.layers.upsampling import *
    from nnc.nn.model.evaluation import dynamic_evaluate as dynamic_evaluate
    from nnc.nn.model.figures import Evaluation as Evaluation
    from nnc.nn.model.load_report import LoadReport as LoadReport
    from nnc.nn.model.model import Model as Model
    from nnc.nn.model.model_saving import save_model as save_model
    from nnc.nn.modules.attention_modules import *
    from nnc.nn.modules.cells import GRUCell as GRUCell
    from nnc.nn.modules.cells import LSTMCell as LSTMCell
    from nnc.nn.modules.cells import RNNCell as RNNCell
    from nnc.nn.modules.channels_first import *
    from nnc.nn.modules.channels_first_pools import *
    from nnc.nn.modules.channels_first_shapes import *
    from nnc.nn.modules.containers import *
    from nnc.nn.modules.linear import *
    from nnc.nn.modules.module import Module as Module
    from nnc.nn.modules.module import Parameter as Parameter
    from nnc.nn.modules.module import ParameterDict as ParameterDict
    from nnc.nn.modules.module import ParameterList as ParameterList
    from nnc.nn.modules.positions import *
    from nnc.nn.modules.recurrent_layers import *
    from nnc.nn.modules.transformer_modules import *
    from nnc.nn.optimization import metrics as metrics
    from nnc.nn.optimization.chains import *
    from nnc.nn.optimization.distance_losses import *
    from nnc.nn.optimization.joint_losses import *
    from nnc.nn.optimization.loss_scale import *
    from nnc.nn.optimization.losses import *
    from nnc.nn.optimization.metrics import *
    from nnc.nn.optimization.optimizer_base import *
    from nnc.nn.optimization.optimizers import *
    from nnc.nn.optimization.schedules import *
    from nnc.nn.optimization.token_losses import *
    from nnc.nn.steps.model_memory import ModelMemory as ModelMemory
    from nnc.nn.training.training import Callback as Callback
    from nnc.nn.training.training import History as History
    from nnc.nn.training.training import Progress as Progress
    from nnc.nn.training.training import Run as Run
    from nnc.nn.training.training_page import TrainingPage as TrainingPage
    from nnc.numerics import gelu as gelu
    from nnc.numerics import log_softmax as log_softmax
    from nnc.numerics import logsumexp as logsumexp
    from nnc.numerics import relu as relu
    from nnc.numerics import sigmoid as sigmoid
    from nnc.numerics import softmax as softmax
    from nnc.numerics import softplus as softplus
    from nnc.numerics import tanh as tanh
    from nnc.symbolic.quantization_report import QuantizationReport as QuantizationReport

_HOMES = homes({
    "nnc.dynamic.transforms.differentiation": "value_and_grad",
    "nnc.nn.callbacks.callbacks":
        "BestCheckpoints CSVLog EarlyStopping JSONLog LastCheckpoint PrintedProgress ReduceOnPlateau StopOnNaN",
    "nnc.nn.callbacks.event_files": "TensorBoardLog",
    "nnc.nn.callbacks.progress_bar": "ProgressBar",
    "nnc.nn.callbacks.rate_finder": "find_rate RateSweep",
    "nnc.nn.criteria":
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss HuberLoss KLDivLoss L1Loss MSELoss "
        "NLLLoss SmoothL1Loss TripletMarginLoss",
    "nnc.nn.files.checkpoint": "Position load_checkpoint position_of read_notes read_position save_checkpoint",
    "nnc.nn.files.model_spec": "load_model",
    "nnc.nn.files.pretrained": "HUGGING_FACE NameRule load_pretrained",
    "nnc.nn.files.torch_names": "load_torch_state_dict torch_state_dict",
    "nnc.nn.generation": "generate generation stream",
    "nnc.nn.inference.frozen_generation": "FrozenGeneration",
    "nnc.nn.layers.activation":
        "Clamp ELU GELU GELUTanh GLU Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU ReLU "
        "ReLU6 SELU Sigmoid SiLU Softmax Softplus Softsign Tanh",
    "nnc.nn.layers.attention": "CrossAttention FeedForward MultiHeadAttention TransformerBlock",
    "nnc.nn.layers.batch_norm": "BatchNorm",
    "nnc.nn.layers.combine": "Concatenate Parallel Residual Sequential",
    "nnc.nn.layers.convolution": "Convolution Convolution1D Convolution3D",
    "nnc.nn.layers.dense": "Dense",
    "nnc.nn.layers.embedding": "Embedding PositionEmbedding",
    "nnc.nn.layers.functional": "Functional Lambda",
    "nnc.nn.layers.initialized": "Initialized",
    "nnc.nn.layers.layer": "Input Layer LayerValue MultiLayer ParameterSpec Scope UpTo",
    "nnc.nn.layers.lora": "LoRA",
    "nnc.nn.layers.normalization": "GroupNorm InstanceNorm LayerNorm RMSNorm",
    "nnc.nn.layers.parallel_layers": "ColumnParallel Replicated RowParallel",
    "nnc.nn.layers.pooling": "AveragePool AveragePool1D AveragePool3D GlobalAveragePool MaxPool MaxPool1D MaxPool3D",
    "nnc.nn.layers.random": "ChannelDropout Dropout GaussianNoise",
    "nnc.nn.layers.recomputed": "Recomputed",
    "nnc.nn.layers.shape": "Flatten Identity PadChannels",
    "nnc.nn.layers.upsampling": "ConvolutionTranspose ConvolutionTranspose3D Upsample",
    "nnc.nn.model.evaluation": "dynamic_evaluate",
    "nnc.nn.model.figures": "Evaluation",
    "nnc.nn.model.load_report": "LoadReport",
    "nnc.nn.model.model": "Model",
    "nnc.nn.model.model_saving": "save_model",
    "nnc.nn.modules.attention_modules": "MultiheadAttention",
    "nnc.nn.modules.cells": "GRUCell LSTMCell RNNCell",
    "nnc.nn.modules.channels_first":
        "BatchNorm1d BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose2d",
    "nnc.nn.modules.channels_first_pools":
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AvgPool1d AvgPool2d AvgPool3d Dropout2d MaxPool1d MaxPool2d MaxPool3d",
    "nnc.nn.modules.channels_first_shapes":
        "ConstantPad2d Fold InstanceNorm1d InstanceNorm2d InstanceNorm3d PixelShuffle PixelUnshuffle ReflectionPad1d "
        "ReflectionPad2d ReplicationPad1d ReplicationPad2d Unflatten Unfold ZeroPad2d",
    "nnc.nn.modules.containers": "ModuleDict ModuleList",
    "nnc.nn.modules.linear": "Linear",
    "nnc.nn.modules.module": "Module Parameter ParameterDict ParameterList",
    "nnc.nn.modules.positions": "RoPE SinusoidalPositionalEncoding",
    "nnc.nn.modules.recurrent_layers": "GRU LSTM RNN",
    "nnc.nn.modules.transformer_modules":
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
    "nnc.nn.optimization.chains":
        "AddDecay OptimizerChain ChainedChange ClipNorm ClipValue DecoupledDecay Scale ScaleBySchedule chain",
    "nnc.nn.optimization.distance_losses": "ContrastiveLoss TripletLoss",
    "nnc.nn.optimization.joint_losses": "FunctionLoss JointLoss",
    "nnc.nn.optimization.loss_scale": "LossScale",
    "nnc.nn.optimization.losses":
        "BinaryCrossEntropy CosineLoss CTC GaussianLikelihood Hinge Huber KLDivergence LogCosh Loss MeanAbsoluteError "
        "MeanSquaredError PointwiseLoss PoissonLoss SmoothedCrossEntropy SoftmaxCrossEntropy Weighted",
    "nnc.nn.optimization.metrics": "Metric METRICS metrics top_k",
    "nnc.nn.optimization.optimizer_base": "Optimizer PerParameter",
    "nnc.nn.optimization.optimizers": "Adadelta Adafactor Adagrad Adam Adamax AdamW Lamb Lion Muon Nadam RMSProp SGD",
    "nnc.nn.optimization.schedules":
        "Constant Cosine CosineRestarts Exponential Joined LinearSchedule Milestones OneCycle Polynomial RateSchedule "
        "StepDecay Warmup",
    "nnc.nn.optimization.token_losses": "DirectPreference TokenCrossEntropy",
    "nnc.nn.steps.model_memory": "ModelMemory",
    "nnc.nn.training.training": "Callback History Progress Run",
    "nnc.nn.training.training_page": "TrainingPage",
    "nnc.numerics": "gelu log_softmax logsumexp relu sigmoid softmax softplus tanh",
    "nnc.symbolic.quantization_report": "QuantizationReport",
    "nnc.nn.functional": "elu functional leaky_relu one_hot silu",
    "nnc.nn.losses": "losses",
    "nnc.nn.init": "init",
    "nnc.nn.initializers": "initializers",
    "nnc.nn.optim": "optim",
    "nnc.nn.callbacks": "callbacks",
    "nnc.nn.data": "data",
    "nnc.nn.files": "files",
    "nnc.nn.inference": "inference",
    "nnc.nn.layers": "layers",
    "nnc.nn.model": "model",
    "nnc.nn.modules": "modules",
    "nnc.nn.optimization": "optimization",
    "nnc.nn.state": "state",
    "nnc.nn.steps": "steps",
    "nnc.nn.training": "training",
    "nnc.nn.utils": "utils",
    "nnc.nn.zoo": "zoo",
})  # fmt: skip
# `from nnc.nn import *` brings names, and of the modules those that are used by their names.
__all__ = [name for name, home in _HOMES.items() if home != f"nnc.nn.{name}"] + [
    "functional", "init", "initializers", "losses", "optim", "utils",
]  # fmt: skip

if not TYPE_CHECKING:
    # A type checker reads the imports above instead, so that a name that is not there stays an error.
    __getattr__, __dir__ = face(
        _HOMES, globals(), lambda name, names: unknown_name("module 'nnc.nn'", name, LAYERS, names, "nn.")
    )
