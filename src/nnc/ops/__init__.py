"""What commands mean: one row or one file per operator, and the functions that apply them.

Every function takes operands of one kind (tensor symbols or eager variables) and returns the same kind.
"""

import sys

from nnc.arguments import explain_functions
from nnc.ops.composed.compose import *
from nnc.ops.composed.custom import *
from nnc.ops.convolutions.convolutions import *
from nnc.ops.convolutions.hints import *
from nnc.ops.convolutions.pooling import *
from nnc.ops.convolutions.resize import *
from nnc.ops.convolutions.sampling import *
from nnc.ops.convolutions.window import *
from nnc.ops.elementwise.complex_numbers import *
from nnc.ops.elementwise.elementary import *
from nnc.ops.elementwise.integers import *
from nnc.ops.elementwise.pointwise import *
from nnc.ops.function import FunctionOperator as _FunctionOperator
from nnc.ops.indexing.detection import *
from nnc.ops.indexing.indexing import *
from nnc.ops.indexing.order import *
from nnc.ops.loss.ctc import *
from nnc.ops.loss.loss import *
from nnc.ops.movement.broadcast import *
from nnc.ops.movement.copy import *
from nnc.ops.movement.fill import *
from nnc.ops.movement.generate import *
from nnc.ops.movement.layout import *
from nnc.ops.movement.movement import *
from nnc.ops.movement.transfer import *
from nnc.ops.normalization.normalization import *
from nnc.ops.normalization.norms import *
from nnc.ops.normalization.softmaxes import *
from nnc.ops.operators import OPERATORS as OPERATORS
from nnc.ops.products.fourier import *
from nnc.ops.products.linear_algebra import *
from nnc.ops.products.products import *
from nnc.ops.quantization.blocks import *
from nnc.ops.quantization.quantization import *
from nnc.ops.random.random import *
from nnc.ops.reads import *
from nnc.ops.reduction.derived import *
from nnc.ops.reduction.reduction import *
from nnc.ops.sequence.attention import *
from nnc.ops.sequence.cached_attention import *
from nnc.ops.sequence.recurrent import *
from nnc.ops.sequence.recurrent_layers import *
from nnc.ops.sequence.rotary import *

explain_functions(sys.modules[__name__])
for _name, _value in tuple(globals().items()):
    if isinstance(_value, _FunctionOperator):
        _value.call_it(_name, __name__)
del _name, _value
