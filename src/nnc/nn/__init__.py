"""L5: models made of layers, trained, evaluated, saved and used.

A name is public where its module lists it (`__all__`), or below.
"""

from typing import TYPE_CHECKING, NoReturn

from nnc.dynamic.transforms.differentiation import value_and_grad as value_and_grad
from nnc.nn import functional as functional
from nnc.nn import optim as optim
from nnc.nn.callbacks.callbacks import *
from nnc.nn.callbacks.event_files import *
from nnc.nn.callbacks.progress_bar import *
from nnc.nn.callbacks.rate_finder import *
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
from nnc.nn.generation import generate as generate
from nnc.nn.generation import stream as stream
from nnc.nn.inference.frozen_generation import FrozenGeneration as FrozenGeneration
from nnc.nn.layers import initializers as initializers
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
from nnc.nn.layers.pooling import *
from nnc.nn.layers.random import *
from nnc.nn.layers.recomputed import *
from nnc.nn.layers.recurrent import *
from nnc.nn.layers.shape import *
from nnc.nn.layers.upsampling import *
from nnc.nn.model.evaluation import dynamic_evaluate as dynamic_evaluate
from nnc.nn.model.figures import Evaluation as Evaluation
from nnc.nn.model.load_report import LoadReport as LoadReport
from nnc.nn.model.model import Model as Model
from nnc.nn.model.model_saving import save_model as save_model
from nnc.nn.modules.containers import *
from nnc.nn.modules.linear import *
from nnc.nn.modules.module import Module as Module
from nnc.nn.modules.module import Parameter as Parameter
from nnc.nn.optimization import metrics as metrics
from nnc.nn.optimization.chains import *
from nnc.nn.optimization.distance_losses import *
from nnc.nn.optimization.joint_losses import *
from nnc.nn.optimization.loss_scale import *
from nnc.nn.optimization.losses import *
from nnc.nn.optimization.metrics import *
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
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.nn'", name, LAYERS, lambda: globals(), "nn.")
