"""What random calls are made of: objects of every layer, and values for parameters, sound and unsound.

`World(number)` is the same for the same number in every process. A value may be wrong (a negative size, nine
dimensions, a key of another graph, NaN), but it has the type that its parameter's annotation names; `odd()` has not.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nnc import keras, nn, ops
from nnc.concrete import ConcreteGraph
from nnc.core.running.stream import Stream
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import Device
from nnc.core.values.dtype import DTYPES, I32, DType
from nnc.core.values.serialize import FileTensor, file_tensors, save_tensors
from nnc.core.values.spec import AnyLayout, Blocked, Layout, Shape, TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph, Variable
from nnc.errors import NncError
from nnc.graph import Arena, Column, Graph, KeyWidth, OpAttr, Registry, UndirectedGraph
from nnc.nn.data import Batches, DataSet
from nnc.nn.layers.layer import Scope
from nnc.nn.zoo import GPT
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import add, exp, multiply, relu
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.optimizer.optimizer import ADAM, SGD, AdamAttrs, SGDAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs
from nnc.planning import Block, Interference, Plan, Problem, solve
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile

ODD: tuple[object, ...] = (
    None, "text", "10", 1.5, 3, True, False, (), [], {}, b"bytes", object(), np.float32(1.0), np.int64(2), np.True_,
    math.nan, math.inf, 10**400, -(10**400), 2j, np.ones(2), np.array("text"), int, nn.ReLU, lambda *values: None,
)  # fmt: skip
SHAPES: tuple[Shape, ...] = (
    (),
    (1,),
    (3,),
    (4,),
    (0,),
    (2, 3),
    (3, 4),
    (4, 4),
    (4, 1),
    (2, 3, 4),
    (1, 4, 4, 2),
    (2, 5, 6, 3),
)
INTEGERS = (0, 1, 2, 3, 4, 5, 7, 9, -1, -2, -5, 64, 255, 2**31, 2**40, 2**62, 2**63, 2**64, -(2**31), -(2**63), 10**400)
SMALL = (0, 1, 2, 3, 4, 5, -1, -2)
FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, -0.0, 1e-30, 1e30, 1e308, -1e308, math.nan, math.inf, -math.inf, 2.0**63)
# What is a number too.
NUMBERS = (*FLOATS, *FLOATS, 3, 10**400, np.float32(0.5), np.float64(np.nan), np.int64(2))
WORDS = ("", "x", "f32", "f64", "i32", "same", "valid", "constant", "edge", "reflect", "nearest", "bilinear", "mean")
EQUATIONS = ("ij,jk->ik", "ii->i", "ij->", "bij,bjk->bik", "ij,ij", "->", "a,b->ab", "ij,kl->ijk", "i1->i", "...i->i")
COMMANDS: tuple[AnyCommand, ...] = (
    Command(add, NoAttrs()),
    Command(multiply, NoAttrs()),
    Command(exp, NoAttrs()),
    Command(relu, NoAttrs()),
    Command(GEMM, GemmAttrs()),
    Command(GEMM, GemmAttrs(transpose_b=True)),
    Command(REDUCE_SUM, ReduceAttrs((0,))),
    Command(SGD, SGDAttrs()),
    Command(ADAM, AdamAttrs()),
)
LAYERS: tuple[Callable[[], nn.Layer], ...] = (
    lambda: nn.Dense(3),
    lambda: nn.Flatten(),
    lambda: nn.ReLU(),
    lambda: nn.Convolution(2, 3),
    lambda: nn.MaxPool(2),
    lambda: nn.LayerNorm(),
    lambda: nn.BatchNorm(),
    lambda: nn.Sequential(nn.Dense(4), nn.Tanh(), nn.Dense(2)),
)


class World:
    """One instance of everything, made when it is first asked for."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.numbers = np.random.default_rng(number)

    # ---- numbers, words, shapes

    def chance(self, share: float) -> bool:
        """True for about this share of the calls."""
        return self.random.random() < share

    def integer(self) -> int:
        """Mostly small, sometimes negative or beyond every width."""
        return self.random.choice(SMALL if self.chance(0.8) else INTEGERS)

    def real(self) -> Any:
        """Any number: not-a-number, infinities, NumPy's, and integers beyond every float too."""
        return self.random.choice(NUMBERS)

    def word(self) -> str:
        """A name, an option or nonsense."""
        return self.random.choice(WORDS)

    def truth(self) -> bool:
        """True or False."""
        return self.chance(0.5)

    def shape(self) -> Shape:
        """Mostly small; sometimes with negative sizes, sizes whose product overflows, or more than eight dimensions."""
        if self.chance(0.8):
            return self.random.choice(SHAPES)
        return tuple(self.integer() for _ in range(self.random.choice((1, 2, 3, 9, 12))))

    def integers(self) -> tuple[int, ...]:
        """A few integers: axes, sizes, strides or a permutation."""
        return tuple(self.integer() for _ in range(self.random.randint(0, 4)))

    def pair(self) -> tuple[int, int]:
        """Two integers."""
        return self.integer(), self.integer()

    def reals(self) -> tuple[Any, ...]:
        """A few floats."""
        return tuple(self.real() for _ in range(self.random.randint(0, 4)))

    # ---- L1

    def dtype(self) -> DType:
        """An element type, mostly a float."""
        return self.random.choice(DTYPES[:2] if self.chance(0.6) else DTYPES)

    def layout(self) -> Layout:
        """A memory layout."""
        return self.random.choice(list(Layout))

    def any_layout(self) -> AnyLayout:
        """A memory layout; in blocks too."""
        blocks = Blocked(self.random.choice(((5, 7), (3, 3, 5, 8), (0, 4))), self.random.choice((0, 1)), 4)
        return self.layout() if self.chance(0.5) else blocks

    def device(self) -> Device:
        """The host, or a device that may not be there."""
        return Device(self.random.choice(("cpu", "cuda")), self.random.choice((0, 1, 7)))

    def spec(self) -> TensorSpec:
        """A sound spec; huge ones too, for they take no memory."""
        if self.chance(0.05):
            return TensorSpec((2**30, 2**20), self.dtype())
        layout = self.layout() if self.chance(0.05) else Layout.NHWC
        return TensorSpec(self.random.choice(SHAPES), self.dtype(), layout)

    def array(self) -> np.ndarray[Any, Any]:
        """Numbers of some shape and type; special values sometimes."""
        values = self.numbers.normal(size=self.random.choice(SHAPES))
        if self.chance(0.1):
            values = np.full_like(values, self.random.choice(FLOATS))
        with np.errstate(all="ignore"):
            return np.asarray(np.nan_to_num(values) if self.chance(0.3) else values).astype(self._plain_type())

    def _plain_type(self) -> np.dtype[Any]:
        return np.dtype(self.random.choice((np.float32, np.float64, np.float32, np.float64, np.float16)))

    def array_like(self) -> object:
        """What NumPy makes arrays of."""
        choices: tuple[Callable[[], object], ...] = (
            self.array, self.array, self.real, self.integer, self.reals, self.tensor, lambda: [[1.0], [2.0, 3.0]],
            lambda: np.array(["a", "b"]), lambda: np.array([1 + 2j]),
        )  # fmt: skip
        return self.random.choice(choices)()

    @cached_property
    def tensors(self) -> list[Tensor]:
        """Tensors with memory: whole ones, views, one that is read-only."""
        made = [Tensor.zeros(spec(self.random.choice(SHAPES), self.dtype())) for _ in range(4)]
        frozen = np.ones((3, 4), np.float32)
        frozen.flags.writeable = False
        made.append(Tensor.from_numpy(frozen))
        made.append(Tensor.from_numpy(np.ones((4, 3), np.float32).T))
        return made

    def tensor(self) -> Tensor:
        """One of the tensors."""
        return self.random.choice(self.tensors)

    def file_tensor(self) -> FileTensor:
        """A tensor that stays in a file, which is mostly whole."""
        place = self.folder / "kept"
        save_tensors(place, {"x": self.tensor()})
        kept = file_tensors(place)["x"]
        if self.chance(0.2):
            os.truncate(place, 9)
        return kept

    def command(self) -> AnyCommand:
        """A command of the catalogue."""
        return self.random.choice(COMMANDS)

    def window(self) -> Window:
        """A window of one to three dimensions; the sizes may not fit anything."""
        rank = self.random.choice((1, 2, 2, 2, 3))
        some = tuple(self.random.choice((1, 1, 2, 3, 2**40)) for _ in range(rank))
        edge = self.random.choice((0, 0, 1, 2, 2**40))
        return Window(some, ((edge, edge),) * rank, (self.random.choice((1, 1, 2, 9)),) * rank)

    # ---- L3 and L4

    @cached_property
    def graph(self) -> SymbolicGraph:
        """A graph with inputs of many types, results, aliases and gradients."""
        return SymbolicGraph("fuzz")

    @cached_property
    def symbols(self) -> list[Symbol]:
        """Symbols of the graph, and of another one."""
        graph = self.graph
        made = [graph.input(spec(self.random.choice(SHAPES), self.dtype())) for _ in range(6)]
        made.append(graph.input(spec((3, 4)), "x"))
        made.extend([ops.exp(made[-1]), made[-1][1:3]])
        made.extend(backward(graph, [made[-2]], [made[-3]]))
        made.append(graph.input(TensorSpec((2**30, 2**20)), "huge"))
        made.append(SymbolicGraph("other").input(spec((3, 4)), "foreign"))
        return made

    def symbol(self) -> Symbol:
        """A symbol; of another graph now and then."""
        return self.random.choice(self.symbols)

    @cached_property
    def dynamic(self) -> DynamicGraph:
        """Eager work on the reference backend."""
        return DynamicGraph(backend="reference")

    @cached_property
    def variables(self) -> list[Variable]:
        """Recorded variables, constants, views, and one of another graph."""
        dynamic = self.dynamic
        made = [dynamic.variable(np.asarray(self.array())) for _ in range(4)]
        made.append(dynamic.constant(np.arange(12, dtype=np.int32).reshape(3, 4)))
        x = dynamic.variable(np.linspace(0.1, 1.2, 12, dtype=np.float32).reshape(3, 4))
        made.extend([x, ops.exp(x), x[0:2]])
        made.append(DynamicGraph(backend="reference").variable(np.ones((3, 4), np.float32)))
        return made

    def variable(self) -> Variable:
        """A variable; of another graph now and then."""
        return self.random.choice(self.variables)

    @cached_property
    def eager(self) -> bool:
        """Whether operators of this world get variables or symbols: mixed kinds are the type checker's business."""
        return self.chance(0.4)

    def operand(self) -> Symbol | Variable:
        """What operators are applied to."""
        return self.variable() if self.eager else self.symbol()

    def anything(self) -> object:
        """What a parameter without a type may be given."""
        choices = (self.operand, self.array, self.array, self.real, self.integer, self.word, self.odd)
        return self.random.choice(choices)()

    def operands(self) -> list[Symbol | Variable]:
        """None to three of them."""
        return [self.operand() for _ in range(self.random.randint(0, 3))]

    def weights(self) -> ops.RecurrentWeights[Any]:
        """Weights of a recurrent layer that hardly ever fit."""
        return ops.RecurrentWeights(self.operand(), self.operand())

    # ---- L2

    @cached_property
    def concrete(self) -> ConcreteGraph:
        """A graph of two commands."""
        graph = ConcreteGraph(backend="reference")
        x, y = Tensor.zeros(spec((3, 4))), Tensor.zeros(spec((3, 4)))
        first = graph.add(COMMANDS[2], [x], [y])
        graph.add(COMMANDS[3], [y], [x], after=[first])
        return graph

    # ---- L0

    @cached_property
    def typed(self) -> Graph[str, str, int]:
        """Five nodes in a chain with a shortcut."""
        graph: Graph[str, str, int] = Graph(int, KeyWidth.BITS8)
        keys = [graph.add_node(f"n{index}") for index in range(5)]
        for one, other in pairwise(keys):
            graph.add_edge(one, other, "e")
        graph.add_edge(keys[0], keys[2], "e")
        return graph

    @cached_property
    def undirected(self) -> UndirectedGraph[str, str, int]:
        """Three nodes, one edge."""
        graph: UndirectedGraph[str, str, int] = UndirectedGraph(int)
        keys = [graph.add_node(f"n{index}") for index in range(3)]
        graph.connect(keys[0], keys[1], "e")
        return graph

    @cached_property
    def arena(self) -> Arena[int, str]:
        """Three records, one of them removed."""
        arena: Arena[int, str] = Arena(int, KeyWidth.BITS8)
        for index in range(3):
            arena.new(f"r{index}")
        arena.remove(1)
        return arena

    @cached_property
    def column(self) -> Column[int, str]:
        """A column over the typed graph, stale in half of the worlds."""
        column: Column[int, str] = Column(self.typed, "fuzz")
        column[0] = "zero"
        if self.truth():
            self.typed.add_node("late")
        return column

    @cached_property
    def registry(self) -> Registry:
        """A registry of this world alone."""
        registry = Registry("fuzz")
        registry.define("known", NoAttrs, inputs=("x",))
        return registry

    @cached_property
    def attribute(self) -> OpAttr[int]:
        """An attribute that one operator has."""
        attribute: OpAttr[int] = OpAttr("fuzz")
        attribute.set(exp, 1)
        return attribute

    @cached_property
    def compiled(self) -> Compiled:
        """A program of one input, which has been run."""
        graph = SymbolicGraph("compiled")
        x = graph.input(spec((2, 3)), "x")
        compiled = compile(graph, [y := ops.exp(x) * 2.0], backend="reference")
        compiled({x: np.ones((2, 3))}, y)
        self.symbols.extend([x, y])
        return compiled

    @cached_property
    def stream(self) -> Stream:
        """A stream, which goes with the world."""
        return Stream("fuzz")

    def tree(self) -> object:
        """Variables in lists and dictionaries, or one alone."""
        one, other = self.variable(), self.variable()
        return self.random.choice((one, one, [one, other], (one, [other]), {"a": one, "b": other}, (), self.real()))

    def function(self) -> Callable[..., object]:
        """What is traced, differentiated or carried round a loop."""
        choices: tuple[Callable[..., object], ...] = (
            lambda *values: values[0] if values else None,
            lambda *values: values,
            lambda *values: None,
            lambda *values: 1.0,
            lambda *values: ops.reduce_sum(ops.square(values[0])) if values else None,
        )
        return self.random.choice(choices)

    def key(self) -> int:
        """A key of some graph, dead or alive."""
        return self.random.choice((0, 1, 2, 3, 4, 5, 99, -1, 2**64))

    def keys(self) -> list[int]:
        """A few keys."""
        return [self.key() for _ in range(self.random.randint(0, 3))]

    # ---- planning

    def block(self) -> Block:
        """A block of memory; some are too large for every arena."""
        lower = self.random.randint(0, 4)
        size = self.random.choice((0, 1, 64, 100, 4096, 2**40, 2**70))
        pinned = self.random.choice((None, None, None, None, 0, 64, 2**40))
        return Block("b", size, lower, lower + self.random.randint(0, 4), self.random.choice((1, 64)), pinned)

    def problem(self) -> Problem:
        """A problem; interference and companions are anything that the constructors let through."""
        blocks = tuple(self.block() for _ in range(self.random.randint(0, 5)))
        try:
            pairs = [(self.random.randint(0, 4), self.random.randint(0, 4)) for _ in range(self.random.randint(0, 4))]
            graph = Interference.of_pairs(len(blocks), pairs) if self.chance(0.3) else None
            return Problem(blocks, graph, (self.integers(),) if self.chance(0.1) else ())
        except NncError:
            return Problem(blocks)

    def plan(self) -> Plan:
        """The plan of a sound problem, perhaps another one."""
        return solve(Problem((Block("a", 64, 0, 2), Block("b", 32, 1, 3))))

    # ---- L5 and files

    def layer(self) -> nn.Layer:
        """A layer, or a few of them in sequence."""
        return self.random.choice(LAYERS)()

    @cached_property
    def scope(self) -> Scope[Any]:
        """Where layers are built: parameters are variables or symbols, as operands of this world are."""
        if self.eager:
            return Scope(lambda row: self.dynamic.constant(np.ones(row.spec.shape, row.spec.dtype.numpy)))
        return Scope(lambda row: self.graph.input(row.spec, row.path))

    @cached_property
    def frozen(self) -> nn.FrozenGeneration:
        """The generation of a small language model."""
        language = nn.Model(GPT(11, 8, 8, 1, 2), (8,), input_dtype=I32, backend="reference")
        return language.freeze_generation()

    @cached_property
    def model(self) -> nn.Model:
        """A small network."""
        return nn.Model(nn.Sequential(nn.Dense(4), nn.Tanh(), nn.Dense(2)), (3,), backend="reference")

    @cached_property
    def keras_model(self) -> keras.Model:
        """A small network as Keras has it, compiled."""
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)])
        model.compile("sgd", "mse", metrics=["mae"], run_eagerly=True)
        return model

    @cached_property
    def data_set(self) -> DataSet:
        """Five examples that fit the model."""
        return DataSet("five", np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3), np.arange(5) % 2, ("a", "b"))

    @cached_property
    def batches(self) -> Batches:
        """Batches of two of them, standing wherever earlier calls have left them."""
        return Batches(self.data_set, 2, seed=1)

    @cached_property
    def folder(self) -> Path:
        """A folder that goes with the world."""
        self._folder = tempfile.TemporaryDirectory(prefix="nnc-fuzz-")
        return Path(self._folder.name)

    def path(self) -> Path:
        """A file: sound, cut short, scrambled, missing, or no file at all."""
        place = self.folder / self.random.choice(("a", "b", "missing", "no/folder", "."))
        if place.name in "ab":
            save_tensors(place, {"x": Tensor.zeros(spec((2, 3)))}, {"nnc": "1"})
            data = bytearray(place.read_bytes())
            for _ in range(self.random.randint(0, 3)):
                data[self.random.randrange(len(data))] = self.random.randrange(256)
            place.write_bytes(data[: self.random.choice((len(data), len(data), 0, 5, 20))])
        return place

    def close(self) -> None:
        """Remove the files of the world."""
        if "folder" in self.__dict__:
            self._folder.cleanup()

    # ---- wrong types

    def odd(self) -> object:
        """A value that hardly any parameter's annotation names."""
        return self.random.choice(ODD)
