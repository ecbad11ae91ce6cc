"""What libraries are made of, compiled for a target: models, ONNX files, programs.

ports = ports_of(model, "target:aarch64", batch=1, quantize=None, sizes={})
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from nnc.classes import dataclass
from nnc.core.values.tensor import Tensor
from nnc.dynamic.transforms.bound_function import bound_on
from nnc.dynamic.transforms.compilation import CompiledFunction
from nnc.dynamic.tree import Tree
from nnc.errors import UsageError
from nnc.export.c_names import c_names
from nnc.nn import Model
from nnc.symbolic import Compiled, Symbol
from nnc.symbolic.passes import QuantizationMode

# What a library computes: a model's outputs by constants, an update, or the outputs by the state that updates leave.
Function = Literal["predict", "train", "apply"]
# Names of what callers give in each update, and of what counts updates and draws.
RATE, COUNTED = "rate", ("step", "draws")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ProgramPorts:
    """A program compiled for a target, and its inputs and outputs by the names that they have in C.

    `state` are bound tensors that last from run to run, in their order, where these are more than those that runs
    write. `given` are bound tensors that callers give in each run. What is in `counted` grows by one behind each run.
    """

    compiled: Compiled
    inputs: Mapping[str, Symbol]
    outputs: Mapping[str, Symbol]
    state: Mapping[str, Tensor] = field(default_factory=dict)
    given: Mapping[str, Tensor] = field(default_factory=dict)
    made: Mapping[str, Tensor] = field(default_factory=dict)
    counted: tuple[Tensor, ...] = ()


@runtime_checkable
class ExportableModel(Protocol):
    """A model that compiles itself for another backend, such as an ONNX file."""

    def compiled_for(self, backend: str, **sizes: int) -> tuple[Compiled, Mapping[str, Symbol], Mapping[str, Symbol]]:
        """The program of these open dimensions, and its inputs and outputs by name."""


# What `library` takes.
Source: TypeAlias = Model | ExportableModel | CompiledFunction[..., Any] | ProgramPorts


def ports_of(
    source: Source,
    backend: str,
    function: Function,
    example: Sequence[Tree],
    batch: int,
    quantize: QuantizationMode | None,
    sizes: Mapping[str, int],
) -> ProgramPorts:
    """The program of a source for a backend; UsageError for a function that the source has not."""
    match source:
        case ProgramPorts():
            given = _named(source.inputs)
            return replace(source, inputs=given, outputs=_named(source.outputs, given))
        case Model() if function == "predict":
            return _prediction(source, backend, batch, quantize)
        case Model():
            return _step(source, backend, function, batch)
        case _ if function != "predict":
            raise UsageError(
                "library", got=f"{function} of what is no model", need="a model of nnc", fix='function="predict"'
            )
        case CompiledFunction():
            bound = bound_on(source, backend, *example)
            results = _numbered("output", bound.made)
            return ProgramPorts(bound.compiled, {}, {}, given=_named(bound.given, results), made=results)
        case _:
            compiled, inputs, outputs = source.compiled_for(backend, **sizes)
            given = _named(inputs)
            return ProgramPorts(compiled, given, _named(outputs, given))


def _prediction(model: Model, backend: str, batch: int, quantize: QuantizationMode | None) -> ProgramPorts:
    twin = copy.copy(model)
    twin.backend, twin.autotune = backend, False
    step = twin.freeze(batch, quantize=quantize)
    return ProgramPorts(step.compiled, _numbered("input", step.inputs), _numbered("output", step.results))


def _step(model: Model, backend: str, function: Function, batch: int) -> ProgramPorts:
    """An update, or a prediction, by weights in a state that both share: those of the model come first there."""
    twin = copy.copy(model)
    twin.backend, twin.autotune = backend, False
    if twin.loss_scale is not None:
        raise UsageError("library", got="a model with a loss_scale", need="a scale that stays", fix="loss_scale=None")
    step = twin.training_step(batch) if function == "train" else twin.prediction_step(batch)
    tensors = twin.tensors_of("train" if function == "train" else "predict")
    rates = {name: tensor for name, tensor in tensors.items() if name == RATE or name.startswith(f"{RATE}.")}
    state = {name: tensors[name] for name in (*twin.tensors(), *twin.states, *COUNTED) if name in tensors}
    inputs = _numbered("input", step.inputs) | _numbered("target", step.targets)
    names = ("loss", "score", "norm") if function == "train" else ()
    outputs = dict(zip(names, step.results)) if names else _numbered("output", step.results)
    counted = tuple(tensors[name] for name in COUNTED if name in tensors)
    return ProgramPorts(step.compiled, inputs, outputs, state, _named(rates), counted=counted)


def _numbered(word: str, symbols: Sequence[T]) -> dict[str, T]:
    return {word if len(symbols) == 1 else f"{word}_{number}": symbol for number, symbol in enumerate(symbols)}


def _named(symbols: Mapping[str, T], taken: Collection[str] = ()) -> dict[str, T]:
    """By names that C has, none of those taken."""
    names = c_names(symbols, taken)
    return {names[text]: symbol for text, symbol in symbols.items()}
