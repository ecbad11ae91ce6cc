"""The public surface as a table of calls, and how their arguments are drawn by what their annotations say."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nnc import nn, ops, planning
from nnc.concrete import Kind
from nnc.core import command, device, dtype, exchange, serialize, stream, tensor
from nnc.core import spec as specs
from nnc.graph import KeyWidth, ListStorage
from nnc.nn import optimizers
from nnc.ops.pointwise import EXP, RELU
from nnc.symbolic import SymbolicGraph, compile
from nnc.symbolic import backward as symbolic_backward
from nnc.symbolic import faults as symbolic_faults
from nnc.symbolic import minimize, prune, verify
from nnc.symbolic.passes import Pass, eliminate_common, simplify
from tests.fuzz.world import EQUATIONS, World
