"""Modules: networks whose attributes are layers, parameters, and lists and dictionaries of them.

    class Net(nn.Module):
        def __init__(self):
            self.hidden, self.out = nn.Dense(32), nn.Dense(10)

        def forward(self, x):
            return self.out(nnc.tanh(self.hidden(x)))

Paths of tensors are names of attributes: `hidden.weight`; a list or dictionary of parameters becomes a module that
holds them, `nn.ParameterList` or `nn.ParameterDict`. Shapes are those of the first call, or of the model that the
module is a layer of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import checked, explained, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor, as_array
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import assign, parameter_over, shared_or_assigned
from nnc.dynamic.tree import Tree
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, IndexRangeError, UsageError
from nnc.nn.layers.layer import MultiLayer, Scope, T
from nnc.nn.modules.nested_values import (
    STATIC,
    UNSURE,
    GivenArguments,
    given_arguments,
    in_row,
    nested_outputs,
)
from nnc.nn.state.frames import in_training, path_below, renewed_in_frame, running, value_of
from nnc.nn.state.layer_state import LayerState
from nnc.nn.state.weight_order import in_first

# What other libraries call the function of a module.
FORWARD = ("__call__", "call")
# What a parameter is made of.
Value = ArrayLike | Tensor | Variable
# What may hold layers.
CONTAINERS = (dict, list, tuple)
# What may take the place of a tensor as it is.
ASSIGNED = (ArrayOperand, LayerState, type(None))


def Parameter(value: ArrayLike | Tensor | Variable) -> Variable:  # noqa: N802  # what PyTorch calls it
    """A variable that is trained where it is an attribute of a module: a leaf with a copy of `value`, in f32 of a list.

    >>> nn.Parameter(np.ones(2, np.float32)).requires_grad
    True
    """
    if not isinstance(value, Tensor | ArrayOperand | np.ndarray | np.generic):
        # Python's floats are f32, as everywhere.
        value = eager.tensor(value).tensor
    if isinstance(value, Variable):
        value = value.tensor
    given = value if isinstance(value, Tensor) else Tensor.from_numpy(as_array(value))
    # A tensor of its own: memory of NumPy's is looked through whenever something recorded reads it.
    return parameter_over(given.clone())


def layer_parameter(value: ArrayLike | Tensor | Variable) -> Variable:
    """A parameter whose weights lie [spatial…, in, out]; those of `Parameter` lie as PyTorch has them."""
    return in_first(Parameter(value))


class Module(MultiLayer):
    """A layer that is written as a function of its inputs: subclasses say what `forward` computes.

    Attributes that are layers, or lists, tuples and dictionaries of them, are its layers; variables that are leaves
    (`nn.Parameter`) are trained. A subclass may call the function `forward`, `__call__` or `call`. In a class that says
    `__call__`, as MLX's and Equinox's do, other float arrays are parameters too, unless their names begin with `_`; in
    one that says `forward`, they are constants, as in PyTorch.

    >>> class Twice(nn.Module):
    ...     def __init__(self):
    ...         self.layer = nn.Dense(3)
    ...     def forward(self, x):
    ...         return self.layer(self.layer(x))
    >>> net = Twice()
    >>> net(nnc.ones((2, 3))).shape
    (2, 3)
    >>> sorted(net.state_dict())
    ['layer.bias', 'layer.weight']
    """

    branches_in_training: ClassVar[bool] = True
    # Whether float arrays that are attributes are parameters, as in MLX: the name of the function tells the school.
    trains_arrays: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not vars(cls).keys().isdisjoint((*FORWARD, "forward")):
            cls.trains_arrays = "__call__" in vars(cls) and "forward" not in vars(cls)
        for name in FORWARD:
            if name in vars(cls) and "forward" not in vars(cls):
                cls.forward = vars(cls)[name]  # type: ignore[method-assign]  # of the subclass
                if name == "__call__":
                    cls.__call__ = Module.__call__  # type: ignore[method-assign]  # which calls `forward`

    def forward(self, *inputs: Any, **options: Any) -> Any:  # noqa: ANN401  # operands of all kinds
        """What the module gives for its inputs: an operand, or a tuple of several."""
        kind = type(self).__name__
        raise UsageError(kind, got="a module without forward", need="its function", fix="def forward(self, x): …")

    def __call__(self, *values: Any, name: str = "", **options: Any) -> Any:  # noqa: ANN401  # of all kinds
        """As layers are called; `forward` also gets arguments by name, containers, and what is no array as it is."""
        if not options and not any(isinstance(value, UNSURE) for value in values):
            return super().__call__(*values, name=name)
        if type(self).__module__.startswith("nnc.") and any(isinstance(value, str | bytes) for value in values):
            raise ArgumentError(type(self).__name__, got="a text", need="arrays")
        given = given_arguments(values, options)
        token = _GIVEN.set((self, given))
        try:
            return super().__call__(*given.arrays(), name=name)
        finally:
            _GIVEN.reset(token)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Run `forward` on the inputs, with layers and parameters of the scope."""
        with running(self, scope, inputs) as (frame, values):
            outputs, structure = nested_outputs(self._run(values))
            if structure is None:
                return tuple(frame.operand(self, value) for value in outputs)
            operands = [frame.operand(self, value) for value in outputs if not isinstance(value, STATIC)]
            return in_row(outputs, structure, operands)

    def call_arguments(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """As `forward` gets them."""
        given_to = _GIVEN.get()
        return (values, {}) if given_to is None or given_to[0] is not self else given_to[1].with_arrays(values)

    def _run(self, values: tuple[Any, ...]) -> Any:  # noqa: ANN401  # what `forward` gives
        """`forward` with the operands in the places of the arrays that it was called with."""
        given_to = _GIVEN.get()
        if given_to is None or given_to[0] is not self:
            return self.forward(*values)
        token = _GIVEN.set(None)
        try:
            arguments, options = given_to[1].with_arrays(values)
            return self.forward(*arguments, **options)
        finally:
            _GIVEN.reset(token)

    def named_children(self) -> list[tuple[str, LayerState]]:
        """The layers among the attributes, by their names: `blocks.0`, `heads.left` in lists and dictionaries."""
        layers: dict[str, LayerState] = {}
        for name, attribute in list(vars(self).items()):
            value = attribute
            if isinstance(attribute, CONTAINERS):
                value = _held(attribute, partial(self._holds, name))
                if value is not attribute:
                    object.__setattr__(self, name, value)
            if isinstance(value, LayerState):
                layers[name] = value
            elif isinstance(value, CONTAINERS):
                layers.update(_layers(name, value))
        return list(layers.items())

    @checked
    def register_buffer(self, name: str, tensor: ArrayLike | Tensor | Variable | None, persistent: bool = True) -> None:
        """An attribute that is not trained; `forward` may assign to it. None is an attribute without a value.

        It is kept with the parameters, in `state_dict()` and files, where it is `persistent`.
        """
        vars(self).pop(name, None)
        if tensor is None:
            setattr(self, name, None)
            return
        self.own.statistics[name] = eager.tensor(tensor.tensor if isinstance(tensor, Variable) else tensor)
        (self.own.transient.discard if persistent else self.own.transient.add)(name)

    @checked
    def register_parameter(self, name: str, param: Variable | None) -> None:
        """`self.name = param`, a parameter or None"""
        setattr(self, name, param)

    @property
    def state(self) -> dict[str, Variable]:
        """Parameters and statistics by path, as MLX hands them to `mx.compile` and `mx.eval`."""
        return dict([*self.named_parameters(), *self.named_buffers()])

    def add_module(self, name: str, module: LayerState) -> None:
        """`self.name = module`"""
        setattr(self, name, module)

    @property
    def training(self) -> bool:
        """Whether calls, or the step of the model that is being built, are those of training."""
        inside = in_training(self)
        return self.own.training if inside is None else inside

    def __setattr__(self, name: str, value: object) -> None:
        own = self.own
        own.changes += 1
        if (name in own.statistics or name in own.variables) and not isinstance(value, ASSIGNED):
            # Numbers for a tensor that is there, or an error: what else it became would be lost in silence.
            value = eager.tensor(value)  # type: ignore[arg-type]  # which looks at what it is given
        if name in own.statistics and isinstance(value, ArrayOperand):
            if not renewed_in_frame(self, name, value):
                assign(own.statistics[name], value)
        elif name in own.variables and isinstance(value, ArrayOperand):
            own.variables[name] = shared_or_assigned(own.variables[name], value)
        elif isinstance(value, Variable) and (value.graph.is_leaf(value) or self._trains(name, value)):
            vars(self).pop(name, None)
            own.variables[name] = value if value.graph.is_leaf(value) else Parameter(value)
        else:
            own.variables.pop(name, None)
            own.statistics.pop(name, None)
            object.__setattr__(self, name, value)

    def _holds(self, name: str, value: Variable) -> bool:
        """Whether an array in a list or dictionary is a parameter."""
        return value.graph.is_leaf(value) or (value.place is None and self._trains(name, value))

    def _trains(self, name: str, value: Variable) -> bool:
        """Whether an array that is no leaf is a parameter here; what a running `forward` keeps is none."""
        floats = value.spec.dtype.is_float and not name.startswith("_")
        return floats and type(self).trains_arrays and in_training(self) is None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # a parameter, in the world of the code that asks
        if not name.startswith("_"):
            own = self.own
            if name in own.variables:
                return value_of(self, name, own.variables[name], statistic=False)
            if name in own.statistics:
                return value_of(self, name, own.statistics[name], statistic=True)
        return super().__getattr__(name)  # type: ignore[misc]  # of `Answering`, which checkers do not see

    def __delattr__(self, name: str) -> None:
        self.own.changes += 1
        if self.own.variables.pop(name, None) is None and self.own.statistics.pop(name, None) is None:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.own.variables, *self.own.statistics})

    def __repr__(self) -> str:
        layers = [f"{name}={layer!r}" for name, layer in self.named_children()]
        tensors = [f"{name}={variable.spec}" for name, variable in self.own.variables.items()]
        return f"{type(self).__name__}({', '.join([*layers, *tensors])})"


# The module that is being called, and what it was given beside arrays.
_GIVEN: ContextVar[tuple[Module, GivenArguments] | None] = ContextVar("given", default=None)


def _layers(path: str, value: object) -> Iterator[tuple[str, LayerState]]:
    """The layers in an attribute, which may be a container."""
    if isinstance(value, LayerState):
        yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _layers(path_below(path, key), part)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _layers(path_below(path, place), part)


@explained
class ParameterList(Module):
    """A list of parameters; an array becomes one.

    >>> scales = nn.ParameterList([nnc.ones(2), nnc.zeros(3)])
    >>> [path for path, _ in scales.named_parameters()], scales[1].shape
    (['0', '1'], (3,))
    """

    def __init__(self, values: Iterable[Value] = ()) -> None:
        super().__init__()
        self.extend(values)

    def append(self, value: Value) -> Self:
        """One more at the end."""
        setattr(self, str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Value]) -> Self:
        """Several more at the end."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self.own.variables)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[place] for place in range(len(self))])

    def __getitem__(self, index: int | slice) -> Any:  # noqa: ANN401  # parameters, in the world of the code that asks
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Value) -> None:
        setattr(self, self._name(index), _parameter(value))

    def _name(self, index: int) -> str:
        count = len(self)
        if not isinstance(index, int) or not -count <= index < count:
            got, need = f"[{shown(index)}] of {count} parameters", f"a number {-count}..{count - 1}"
            raise IndexRangeError("ParameterList", got=got, need=need, origin=caller_origin())
        return str(index % count)


@explained
class ParameterDict(Module):
    """Parameters by name; an array becomes one.

    >>> scales = nn.ParameterDict({"left": nnc.ones(2)})
    >>> "left" in scales, scales["left"].requires_grad
    (True, True)
    """

    def __init__(self, parameters: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__()
        self.update(parameters)

    def update(self, parameters: Tree) -> Self:
        """Several more, or others by the same names: a dictionary, or pairs of names and values."""
        for name, value in dict(parameters).items():
            self[name] = value
        return self

    def keys(self) -> list[str]:
        """Their names."""
        return list(self.own.variables)

    def values(self) -> list[Any]:
        """The parameters."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Names and parameters."""
        return [(name, self[name]) for name in self.keys()]

    def __len__(self) -> int:
        return len(self.own.variables)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.own.variables

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a parameter, in the world of the code that asks
        if name not in self.own.variables:
            need = ", ".join(self.keys()) or "one that was set"
            raise ArgumentError("ParameterDict", got=shown(name), need=need, origin=caller_origin())
        return value_of(self, name, self.own.variables[name], statistic=False)

    def __setitem__(self, name: str, value: Value) -> None:
        setattr(self, name, _parameter(value))


def _parameter(value: Value) -> Variable:
    """The parameter itself, or one with a copy of the value."""
    return value if isinstance(value, Variable) and value.graph.is_leaf(value) else Parameter(value)


def _held(value: Any, trains: Callable[[Variable], bool]) -> Any:  # noqa: ANN401  # an attribute of any kind
    """The attribute with modules in the places of lists and dictionaries of parameters."""
    if not isinstance(value, CONTAINERS):
        return value
    keys = list(value) if isinstance(value, dict) else range(len(value))
    parts = [value[key] for key in keys]
    parameters = [isinstance(part, Variable) and trains(part) for part in parts]
    if any(parameters) and all(parameters):
        if not isinstance(value, dict):
            return ParameterList(parts)
        return ParameterDict(value) if all(isinstance(key, str) for key in keys) else value
    layers = any(isinstance(part, LayerState) for part in parts)
    if any(held and (layers or not part.graph.is_leaf(part)) for part, held in zip(parts, parameters, strict=True)):
        got, fix = "a list or dictionary of parameters beside other things", "self.scale = …, an attribute each"
        raise UsageError("Module", got=got, need="parameters alone", fix=fix)
    inner = [_held(part, trains) for part in parts]
    for key, part in zip(keys, inner, strict=True):
        if part is not value[key]:
            if isinstance(value, tuple):
                return tuple(inner)
            value[key] = part
    return value
