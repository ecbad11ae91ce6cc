"""What commands mean: one row or one file per operator, and the functions that apply them.

Every function takes operands of one kind (tensor symbols or eager variables) and returns the same kind.
"""

import sys

from nnc.arguments import explain_functions
from nnc.ops.attention import *
from nnc.ops.broadcast import *
from nnc.ops.complex_numbers import *
from nnc.ops.compose import *
from nnc.ops.convolutions import *
from nnc.ops.copy import *
from nnc.ops.ctc import *
from nnc.ops.custom import *
from nnc.ops.derived import *
from nnc.ops.detection import *
from nnc.ops.elementary import *
from nnc.ops.fill import *
from nnc.ops.fourier import *
from nnc.ops.generate import *
from nnc.ops.hints import *
from nnc.ops.indexing import *
from nnc.ops.integers import *
from nnc.ops.layout import *
from nnc.ops.linear_algebra import *
from nnc.ops.loss import *
from nnc.ops.movement import *
from nnc.ops.normalization import *
from nnc.ops.operators import OPERATORS as OPERATORS
from nnc.ops.order import *
from nnc.ops.pointwise import *
from nnc.ops.pooling import *
from nnc.ops.products import *
from nnc.ops.quantization import *
from nnc.ops.random import *
from nnc.ops.reads import *
from nnc.ops.recurrent import *
from nnc.ops.reduction import *
from nnc.ops.resize import *
from nnc.ops.rotary import *
from nnc.ops.sampling import *
from nnc.ops.softmaxes import *
from nnc.ops.window import *

explain_functions(sys.modules[__name__])
