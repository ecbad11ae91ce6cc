"""Layers, one file per family."""

from nnc.nn.layers.activation import *
from nnc.nn.layers.attention import *
from nnc.nn.layers.batch_norm import *
from nnc.nn.layers.convolution import *
from nnc.nn.layers.dense import *
from nnc.nn.layers.embedding import *
from nnc.nn.layers.normalization import *
from nnc.nn.layers.pooling import *
from nnc.nn.layers.random import *
from nnc.nn.layers.shape import *
from nnc.nn.layers.upsampling import *
