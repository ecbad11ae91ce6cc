"""The public surface as a table of calls, and how their arguments are drawn from what their annotations say."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import re
import reprlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from io import StringIO
from types import ModuleType
from typing import Any

import numpy as np
from tests.fuzz.world import EQUATIONS, World

import nnc
from nnc import array_api as arrays
from nnc import autograd, concrete, dynamic, keras, nn, onnx, ops, planning, symbolic
from nnc.cli.main import main
from nnc.core.precautions import replacement
from nnc.core.running import stream
from nnc.core.values import command, device, dtype, exchange, serialize, spec, tensor
from nnc.core.values.command import AnyCommand, Command
from nnc.errors import NncError
from nnc.graph import KeyWidth, ListStorage, Op
from nnc.nn import data
from nnc.nn.files import files
from nnc.nn.layers import initializers
from nnc.nn.optimization import metrics
from nnc.ops.elementwise.pointwise import exp, relu
from nnc.ops.function import FunctionOperator
from nnc.ops.operators import OPERATORS
from nnc.symbolic import passes, text
from nnc.symbolic import serialize as graph_files

Draw = Callable[[World], object]
Callee = Callable[[World], Callable[..., object]]

# What a name in an annotation means. A callable with a parameter of any other name is not called.
LEAVES: Mapping[str, Draw] = {
    "None": lambda world: None,
    "ArrayOperand": World.variable,
    "Sizes": lambda world: world.random.choice((world.integer(), tuple(world.integers()))),
    "Seed": World.integer,
    "int": World.integer,
    "float": World.real,
    "str": World.word,
    "bool": World.truth,
    "object": World.odd,
    "Any": World.anything,
    "Shape": World.shape,
    "Place": World.tensor,
    "Index": lambda world: (world.integer(),),
    "T": World.operand,
    "Operand": World.operand,
    "Window": World.window,
    "LossReduction": lambda world: world.random.choice(list(ops.LossReduction)),
    "Activation": lambda world: world.random.choice(list(ops.Activation)),
    "RecurrentWeights": World.weights,
    "Cell": lambda world: world.random.choice((ops.lstm, ops.gru)),
    "DType": World.dtype,
    "Layout": World.layout,
    "AnyLayout": World.any_layout,
    "Device": World.device,
    "TensorSpec": World.spec,
    "Tensor": World.tensor,
    "FileTensor": World.file_tensor,
    "Tensors": lambda world: (world.tensor(), world.tensor()),
    "ArrayLike": World.array_like,
    "NDArray": World.array,
    "SupportsDLPack": World.array,
    "DTypeLike": World.word,
    "AnyCommand": lambda world: any_command(world),
    "Array": World.variable,
    "np.random.Generator": lambda world: world.numbers,
    "np": lambda world: world.numbers,
    "random": lambda world: world.numbers,
    "Generator": lambda world: world.numbers,
    "Scope": lambda world: world.scope,
    "SymbolicGraph": lambda world: world.graph,
    "Symbol": World.symbol,
    "Variable": World.variable,
    "TensorKey": World.key,
    "ExecKey": World.key,
    "EdgeKey": World.key,
    "Pass": lambda world: world.random.choice(list(passes.Pass)),
    "ConcreteGraph": lambda world: concrete.ConcreteGraph(backend="reference"),
    "MultiviewKind": lambda world: world.random.choice(list(concrete.MultiviewKind)),
    "Block": World.block,
    "Problem": World.problem,
    "Plan": World.plan,
    "Interference": lambda world: planning.Interference.of_pairs(3, [(0, 1)]),
    "Path": World.path,
    "Layer": World.layer,
    "Loss": lambda world: world.random.choice((nn.SoftmaxCrossEntropy, nn.MeanSquaredError))(),
    "Optimizer": lambda world: world.random.choice((nn.Adam, nn.SGD, nn.Lion))(),
    "RateSchedule": lambda world: world.random.choice((nn.Constant(0.1), nn.Cosine(0.1, 5))),
    "Batches": lambda world: world.batches,
    "Data": lambda world: world.random.choice((world.batches, world.data_set, world.array_like())),
    "Values": lambda world: world.array_like() if world.chance(0.8) else (world.array_like(), world.array_like()),
    "Listener": lambda world: lambda progress: None,
    "DataSet": lambda world: world.data_set,
    "Examples": lambda world: data.Examples("drawn", np.asarray(world.array()), np.asarray(world.array())),
    "Trainable": lambda world: world.model,
    "Position": lambda world: nn.position_of(world.model, world.batches),
    "BatchState": lambda world: data.BatchState(world.integer(), world.integer(), world.integer()),
    "Initializer": lambda world: world.random.choice((initializers.zeros, initializers.he_uniform)),
    "Axes": lambda world: world.random.choice((None, world.integer(), tuple(world.integers()))),
    "Number": World.real,
    "TuneOptions": lambda world: concrete.TuneOptions(),
    "Count": World.integer,
    "Size": World.integer,
    "Rate": World.real,
    "Share": World.real,
    "Positive": World.real,
    "Finite": World.real,
    "Probability": World.real,
    "Model": lambda world: world.model,
    "K": World.key,
    "N": World.word,
    "E": World.word,
    "D": World.word,
    "V": World.word,
    "KeyWidth": lambda world: world.random.choice(list(KeyWidth)),
    "StorageFactory": lambda world: ListStorage,
    "Op": lambda world: world.random.choice((exp, relu)),
    "Test": lambda world: concrete.CountBelow(2),
    "Choice": lambda world: concrete.Selector(world.tensor()),
    "Signal": lambda world: stream.Signal("fuzz"),
    "Tree": World.tree,
    "Function": World.function,
    "Columns": World.array,
    "Passes": lambda world: world.batches,
    "Metric": lambda world: nn.metrics.metrics_of(["accuracy"])[0],
    "Input": lambda world: nn.Input((3,)),
    "Specs": lambda world: (world.spec(), world.spec()),
    "OSError": lambda world: OSError(2, "no such file"),
    "Chunk": lambda world: b"chunk",
    "bytes": lambda world: world.word().encode(),
    "os.PathLike": World.path,
    "os": World.path,
    "PathLike": World.path,
    "Task": lambda world: lambda: None,
    "Callback": lambda world: lambda error: None,
    "Stream": lambda world: world.stream,
    "Compiled": lambda world: world.compiled,
    "Arena": lambda world: world.compiled,
    "Json": lambda world: world.random.choice((None, 1, "x", [], {}, [1, {"op": "exp"}])),
}
SEQUENCES = ("Sequence", "Iterable", "Collection", "list")
MAPPINGS = ("Mapping", "dict")

MODULES: tuple[ModuleType, ...] = (
    ops, symbolic, passes, concrete, nn, data, planning, spec, tensor, dtype, device, command, serialize, exchange,
    nnc, dynamic, onnx, text, graph_files, files, stream, replacement, metrics, initializers, arrays, arrays.linalg,
    arrays.fft, autograd, nnc.random, nnc.tree, nnc.lax, keras, keras.activations, keras.callbacks, keras.initializers,
    keras.layers, keras.losses, keras.metrics, keras.models, keras.ops, keras.optimizers, keras.optimizers.schedules,
    keras.random, keras.regularizers, keras.saving, keras.tape, keras.utils,
)  # fmt: skip
RECEIVERS: Mapping[str, Draw] = {
    "SymbolicGraph": lambda world: world.graph,
    "Symbol": World.symbol,
    "DynamicGraph": lambda world: world.dynamic,
    "Variable": World.variable,
    "ConcreteGraph": lambda world: world.concrete,
    "Tensor": World.tensor,
    "TensorSpec": World.spec,
    "Window": World.window,
    "Problem": World.problem,
    "Model": lambda world: world.model,
    "Layer": World.layer,
    "FrozenGeneration": lambda world: world.frozen,
    "Batches": lambda world: world.batches,
    "DataSet": lambda world: world.data_set,
    "Graph": lambda world: world.typed,
    "UndirectedGraph": lambda world: world.undirected,
    "Arena": lambda world: world.arena,
    "Column": lambda world: world.column,
    "Compiled": lambda world: world.compiled,
    "ModelStep": lambda world: world.model.prediction_step(2),
    "Plan": World.plan,
    "Stream": lambda world: world.stream,
    "Signal": lambda world: stream.Signal("fuzz"),
    "Registry": lambda world: world.registry,
    "OpAttr": lambda world: world.attribute,
    "keras.Model": lambda world: world.keras_model,
    "keras.Layer": lambda world: world.keras_model.layers[0],
    "keras.Metric": lambda world: keras.metrics.MeanSquaredError(),
    "keras.Confusion": lambda world: keras.metrics.Precision(),
    "keras.Loss": lambda world: keras.losses.MeanSquaredError(),
    "keras.Optimizer": lambda world: keras.optimizers.Adam(),
}
# What subclasses of layers say, and what `nn.Model` asks of them.
KERAS_HOOKS = (
    "build_for",
    "build_many",
    "call",
    "compute_loss",
    "compute_mask",
    "ensure_built",
    "forward",
    "make_weights",
    "predict_step",
)
# Not called, and why: these are handed out to other layers of nnc, who keep the rules that they rely on.
INTERNAL = {
    "nnc.symbolic.compiler.shared_arena.trim_after": "called with bytes of statements",
    "nnc.vocabulary.answers.unknown_name": "called by `__getattr__`, below the checks of arguments",
    "nnc.graph.screen.fitted": "called with texts of our own",
    "nnc.graph.screen.preformatted": "called with texts of our own",
    "DynamicGraph.hold": "called when a variable gets a place in the record",
    "SymbolicGraph.add_exec": "appends a record as it is: `apply` is the checked way",
    "SymbolicGraph.replace_exec": "the caller keeps the graph free of cycles",
    "Registry.meet": "called by attributes",
    "Symbol": "made by graphs",
    "Variable": "made by graphs",
    "Exec": "a record of concrete graphs",
    "Compiled": "made by compile",
    "Run": "made by fit",
    "Signal.settle": "waits for a signal that nobody emits",
    "Signal.wait": "waits for a signal that nobody emits",
    "Stream.wait": "waits for a signal that nobody emits",
    "nnc.lax.while_loop": "goes on for ever where its test says so",
    "nnc.lax.fori_loop": "goes on as long as its bounds say, which are drawn up to 10^308",
    "nnc.keras.layers.array_functions.fori_loop": "goes on as long as its bounds say, which are drawn up to 10^308",
    "nnc.dynamic.transforms.control_flow.while_loop": "goes on for ever where its test says so",
    "nnc.numerics.set_printoptions": "changes what all later calls print",
    "nnc.core.precautions.replacement.reason_of": "called with what the system said",
    **dict.fromkeys(
        (f"nnc.core.precautions.reading.{name}" for name in ("fill", "kind_of", "opened", "read_file")),
        "called with paths that their callers checked",
    ),
    "HeldFile": "called with paths that their callers checked",
    "MappedFile": "called with paths that their callers checked",
    "Body": "made by loops and branches",
    "nnc.symbolic.bodies.change_bodies": "called by passes",
    "nnc.core.values.spec.contiguous_strides": "called for every view, with shapes that were checked",
    **dict.fromkeys(
        (
            "nnc.keras.named.named",
            "nnc.keras.named.snake_case",
            "nnc.keras.initializers.drawn",
            "nnc.keras.initializers.fans",
            "nnc.keras.metric_states.beside",
            "nnc.keras.loss_functions.reduced",
            "nnc.keras.loss_functions.same_rank",
            "nnc.keras.engine.keras_tensor.applied",
            "nnc.nn.callbacks.event_files.append_event",
            "nnc.nn.callbacks.event_files.begun_events",
            "nnc.nn.callbacks.event_files.event",
            "nnc.nn.callbacks.event_files.record",
            "nnc.nn.callbacks.event_files.single_precision",
        ),
        "a part of modules of keras",
    ),
    **dict.fromkeys(
        (f"keras.{kind}.{name}" for kind in ("Model", "Layer") for name in KERAS_HOOKS),
        "what `__call__` or `fit` call, which are the doors",
    ),
    "keras.Optimizer.slots_of": "called by files, with weights that they name",
    "keras.Optimizer.take_slots": "called by files, with weights that they name",
    **dict.fromkeys(
        (f"keras.{kind}.function" for kind in ("Metric", "Loss")), "a function of the class, which is called alone"
    ),
    "DynamicGraph.renew": "called by optimizers, with a variable that it is handed",
    "nnc.core.values.exact.are_the_same": "called with attributes of operators, among which arrays are none",
    "nnc.array_api.asarray": "raises ValueError where it would have to copy, as the standard says",
}
# Receivers that are called themselves.
CALLED = ("keras.Model", "keras.Layer", "keras.Loss")
# How often something is done: as many times as it says.
ENDLESS = ("epochs",)
BINARY = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul)


def through_bytes(value: object) -> object:
    """The value after a way through bytes."""
    return pickle.loads(pickle.dumps(value))


# Of these a process has one each, under a name: nobody has a use for a second one.
GLOBAL = ("Registry", "OpAttr")
COPIES = (copy.copy, copy.deepcopy, through_bytes)
# What serves many threads: what each of two does, drawn before they begin.
THREADED: Mapping[str, Callable[[World], Callable[[], object]]] = {
    "predict": lambda world: partial(world.model.predict, world.array_like()),
    "evaluate": lambda world: partial(world.model.evaluate, np.zeros((4, 3)), world.array_like()),
    "train_on_batch": lambda world: partial(world.model.train_on_batch, np.zeros((4, 3)), world.array_like()),
    "operators": lambda world: partial(
        world.random.choice((ops.add, ops.gemm, ops.multiply)), world.variable(), world.variable()
    ),
}
# What is said on the command line; training takes its time and is not among it.
COMMANDS = ("memplan", "ops", "predict", "plan", "run", "train --epochs 0", "--version", "nothing")
OPTIONS = ("--json", "--help", "--backend", "--checkpoint", "--index", "--capacity", "--solver", "--limit", "--size")


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Something to call: where it is got from, and how each parameter is drawn."""

    name: str
    callee: Callee
    parameters: tuple[inspect.Parameter, ...]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call; `sound` when each has the type that its annotation names."""

    positional: tuple[object, ...]
    named: Mapping[str, object]
    sound: bool

    def __str__(self) -> str:
        shown = [reprlib.repr(value) for value in self.positional]
        return ", ".join(shown + [f"{name}={reprlib.repr(value)}" for name, value in self.named.items()])


# ---- drawing


def draw(world: World, annotation: str) -> object:
    """A value of the type that an annotation names; KeyError for a name that is not in the table."""
    parts = _split(annotation, " | ")
    if len(parts) > 1:
        return draw(world, world.random.choice(parts))
    name, _, inner = annotation.removesuffix("]").partition("[")
    if not inner or name in LEAVES:
        return LEAVES[name](world)
    if name == "Callable":
        return lambda *values: draw(world, _split(inner, ", ")[-1])
    inside = _split(inner, ", ")
    if name == "tuple" and inside[-1] != "...":
        return tuple(draw(world, one) for one in inside)
    if name in ("tuple", *SEQUENCES):
        values = [draw(world, inside[0]) for _ in range(world.random.choice((0, 1, 1, 2, 2, 3)))]
        return tuple(values) if name == "tuple" else values
    if name in MAPPINGS:
        return {draw(world, inside[0]): draw(world, inside[1]) for _ in range(world.random.choice((0, 1, 2)))}
    raise KeyError(annotation)


def any_command(world: World) -> AnyCommand:
    """Mostly a plain command; else any operator of the catalogue with attributes that are drawn field by field."""
    if world.chance(0.3):
        return world.command()
    return command_of(world, world.random.choice(OPERATORS))


def command_of(world: World, op: Op[Any]) -> AnyCommand:
    """The operator with attributes that are drawn field by field; a plain command where that does not come off."""
    for _ in range(8):
        try:
            return Command(op, op.attributes(**{row.name: draw(world, str(row.type)) for row in fields(op.attributes)}))
        except (NncError, KeyError):
            continue
    return world.command()


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text at separators that no bracket encloses."""
    parts, depth = [""], 0
    for piece in text.split(separator):
        if depth:
            parts[-1] += separator + piece
        else:
            parts[-1:] = [*parts[:-1], piece] if parts == [""] else [parts[-1], piece]
        depth += piece.count("[") - piece.count("]")
    return parts


def arguments(world: World, target: Target) -> Arguments:
    """Drawn arguments; seldom one of a wrong type, one too few or one too many."""
    positional: list[object] = []
    named: dict[str, object] = {}
    sound, gap = True, False
    for parameter in target.parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(argument_of(world, parameter) for _ in range(0 if gap else world.random.randint(0, 3)))
        elif parameter.default is not parameter.empty and world.chance(0.6):
            gap = True
        elif world.chance(0.005):
            sound, gap = False, True
        else:
            odd = world.chance(0.03)
            sound = sound and not odd
            value = world.odd() if odd else argument_of(world, parameter)
            if gap or parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
    return Arguments(tuple(positional), named, sound)


def argument_of(world: World, parameter: inspect.Parameter) -> object:
    """A value of the type that the parameter's annotation names."""
    if parameter.name == "equation":
        return world.random.choice(EQUATIONS)
    if parameter.name in ("epochs", "steps"):
        # 2^63 of them are no mistake, and no test.
        return world.random.choice((-1, 0, 1, 2))
    return draw(world, str(parameter.annotation))


# ---- the table


def targets() -> list[Target]:
    """Every public call whose parameters can be drawn, in a fixed order."""
    found = [target for module in MODULES for name in _public(module) for target in _of(module, name)]
    for name, receiver in RECEIVERS.items():
        found.extend(_methods(name, receiver))
    found.extend(Target(f"operand {function.__name__}", _on_operand(function), ()) for function in BINARY)
    found.append(Target("operand [index]", _indexed, ()))
    for name in CALLED:
        receiver = RECEIVERS[name]
        parameters = _parameters(type(receiver(World(0))).__call__)[1:]
        # Of as many values as are given it takes one.
        found.append(Target(f"{name}(…)", receiver, tuple(map(_single, parameters))))
    rows = [target for target in found if target.name not in INTERNAL and all(map(_drawable, target.parameters))]
    rows.extend(
        Target(f"{way.__name__} of {name}", _copied(way, receiver), ())
        for name, receiver in RECEIVERS.items()
        for way in COPIES
        if name not in GLOBAL
    )
    rows.extend(Target(f"threads in {name}", _threaded(call), ()) for name, call in THREADED.items())
    rows.append(Target("nnc on the command line", _commanded, ()))
    # Names that several modules hand on count once; every operator is one more way to call.
    unique = {target.name: target for target in rows}
    return [*unique.values(), *(Target(f"apply {op.name}", _applied(op), ()) for op in OPERATORS)]


def _public(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    return list(listed) if listed else [name for name in vars(module) if not name.startswith("_")]


def _of(module: ModuleType, name: str) -> list[Target]:
    value = getattr(module, name)
    home = getattr(value, "__module__", "")
    is_kind = inspect.isclass(value)
    if not home.startswith("nnc") or not (inspect.isfunction(value) or isinstance(value, FunctionOperator) or is_kind):
        return []
    if is_kind and (inspect.isabstract(value) or issubclass(value, Enum) or getattr(value, "_is_protocol", False)):
        return []
    made = [Target(name if is_kind else f"{home}.{name}", _constant(value), _parameters(value))]
    if is_kind:
        for method, function in vars(value).items():
            if isinstance(function, classmethod | staticmethod) and not method.startswith("_"):
                bound = getattr(value, method)
                made.append(Target(f"{name}.{method}", _constant(bound), _parameters(bound)))
    return made


def _methods(name: str, receiver: Draw) -> list[Target]:
    kind = type(receiver(World(0)))
    names = [method for method, value in inspect.getmembers(kind, inspect.isfunction) if not method.startswith("_")]
    return [Target(f"{name}.{method}", _bound(receiver, method), _of_instance(kind, method)) for method in names]


def _of_instance(kind: type, method: str) -> tuple[inspect.Parameter, ...]:
    """The parameters behind the instance, which a static method does not have."""
    is_static = isinstance(inspect.getattr_static(kind, method), staticmethod)
    return _parameters(getattr(kind, method))[0 if is_static else 1 :]


def _single(parameter: inspect.Parameter) -> inspect.Parameter:
    is_several = parameter.kind is parameter.VAR_POSITIONAL
    return parameter.replace(kind=parameter.POSITIONAL_ONLY) if is_several else parameter


def _constant(value: Callable[..., object]) -> Callee:
    return lambda world: value


def _bound(receiver: Draw, method: str) -> Callee:
    return lambda world: getattr(receiver(world), method)


def _parameters(value: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """The parameters, without those that need not be given and cannot be drawn."""
    found = inspect.signature(value).parameters.values()
    named = [
        row
        for row in found
        if row.kind is not row.VAR_KEYWORD and (row.name not in ENDLESS or row.default is row.empty)
    ]
    return tuple(parameter for parameter in named if parameter.default is parameter.empty or _drawable(parameter))


def _drawable(parameter: inspect.Parameter) -> bool:
    """Whether the table has all names of the annotation."""
    names = set(re.findall(r"[A-Za-z_]\w*", str(parameter.annotation)))
    return names <= LEAVES.keys() | {"tuple", "Callable", *SEQUENCES, *MAPPINGS}


def _on_operand(function: Callable[[Any, Any], object]) -> Callee:
    def callee(world: World) -> Callable[..., object]:
        one = world.operand()
        other = world.operand() if world.chance(0.6) else world.real()
        swapped = world.chance(0.2) and function is not operator.matmul
        return lambda: function(other, one) if swapped else function(one, other)

    return callee


def _indexed(world: World) -> Callable[..., object]:
    parts = [
        world.random.choice(
            (world.integer(), slice(world.integer(), world.integer()), slice(None, None, world.integer()), ..., None)
        )
        for _ in range(world.random.randint(0, 4))
    ]
    x = world.operand()
    return lambda: x[parts[0] if len(parts) == 1 else tuple(parts)]


def _copied(way: Callable[[Any], object], receiver: Draw) -> Callee:
    return lambda world: partial(way, receiver(world))


def _threaded(call: Callable[[World], Callable[[], object]]) -> Callee:
    """Two threads at once, each with a call of its own; what comes out of the first that fails comes out."""

    def callee(world: World) -> Callable[..., object]:
        one, other = call(world), call(world)

        def both() -> object:
            with ThreadPoolExecutor(2) as pool:
                futures = [pool.submit(one), pool.submit(other)]
            return [future.result() for future in futures]

        return both

    return callee


def _commanded(world: World) -> Callable[..., object]:
    """A line of words, in this process; an exit code for our own bugs is at fault."""
    words = world.random.choice(COMMANDS).split()
    for _ in range(world.random.randint(0, 3)):
        words.append(world.random.choice((*OPTIONS, str(world.path()), str(world.integer()), world.word(), "digits")))

    def said() -> None:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as told:
            code = main(words)
        assert code in {0, 1, 2}, f"exit code {code} of nnc {' '.join(words)}: {told.getvalue()[:200]}"

    return said


def _applied(op: Op[Any]) -> Callee:
    """The operator with drawn attributes on as many operands as it takes, or on one more or less."""

    def callee(world: World) -> Callable[..., object]:
        command = command_of(world, op)
        names = command.op.inputs
        count = len(names) if isinstance(names, tuple) else world.random.randint(0, 3)
        inputs: list[Any] = [world.operand() for _ in range(max(count + world.random.choice((0,) * 8 + (1, -1)), 0))]
        inputs = [None if world.chance(0.1) else x for x in inputs]
        if world.eager:
            return lambda: world.dynamic.execute(command, inputs)
        return lambda: world.graph.apply(command, inputs)

    return callee
