"""The weights that a layer has of its own, outside of any model: made at its first call, and kept by the layer.

    dense = nn.Dense(3)
    dense(x)                              makes weight and bias; x is an array, an eager or a traced value
    dense.state_dict()                    {"weight": …, "bias": …}

A tensor belongs to the innermost layer that existed before the call: whoever shares that layer shares its tensors. They
are leaf variables that stay the same objects; an update gives them other values. In a function that is compiled they
are inputs with the value of each call, and what the function makes of them is written back behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import explained_as, shown
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.values.device import Device
from nnc.core.values.serialize import save_tensors
from nnc.dynamic import eager
from nnc.dynamic.tree import LEAF, Tree, TreeNode, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError
from nnc.nn.state.layer_hooks import LayerHooks
from nnc.nn.state.layer_moves import LayerMoves
from nnc.nn.state.loading import EXACT, Arrays, UnfitKeys, check_fits, host_array, in_our_order, unfit_keys
from nnc.nn.state.scope import Scope, Untrained
from nnc.nn.state.sized_tensors import SizedTensors, make_sized
from nnc.nn.state.tensor_files import OF_LAYERS, is_of_layers, stored_tensors
from nnc.nn.state.weight_order import in_first, is_in_first

_BUILDING: ContextVar[bool] = ContextVar("building", default=False)


def is_building() -> bool:
    """Whether a layer is being built in this thread: layers that it makes are parts of it."""
    return _BUILDING.get()


class Building:
    """A layer is being built inside; a class for the time it takes, as `reopened` gives one."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _BUILDING.set(True)

    def __exit__(self, *error: object) -> None:
        _BUILDING.reset(self._token)


class OwnTensors(LayerHooks, HoldsFunctions):
    """Variables of a layer by name, which of them are trained, the layers below it, and how it is used."""

    pickled_as = "a layer's hooks"

    def __init__(self) -> None:
        super().__init__()
        self.variables: dict[str, Variable] = {}
        self.statistics: dict[str, Variable] = {}
        # Statistics that files do not hold.
        self.transient: set[str] = set()
        self.parts: dict[str, LayerState] = {}
        self.called = False
        self.training = True
        self.frozen = False
        # What an optimizer keeps for all parameters of this layer and of those below it (`Optimizer.update`).
        self.optimizer_state: dict[str, Variable] = {}
        self.optimizer_kinds: dict[str, object] = {}
        # Values that the first call will find, by path.
        self.pending: dict[str, NDArray[np.generic]] = {}
        # How often an attribute was set or deleted that may be an option.
        self.changes = 0
        # Calls that have been traced, by the specs of their inputs (`nnc.nn.state.call_replay`).
        self.replays: dict[Hashable, Any] = {}

    def __getstate__(self) -> dict[str, object]:
        turned = [name for name, variable in self.variables.items() if is_in_first(variable)]
        return {**vars(self), "replays": {}, "turned": turned}

    def __setstate__(self, state: dict[str, object]) -> None:
        turned: Any = state.pop("turned", ())
        vars(self).update(state)
        for name in turned:
            in_first(self.variables[name])

    def let_train(self, names: str | Collection[str], wanted: bool) -> None:
        """Train the parameters of these names, or keep them as they are."""
        for name in self.variables.keys() & ({names} if isinstance(names, str) else set(names)):
            if self.variables[name].dtype.is_continuous:
                self.variables[name].requires_grad = wanted

    def mode(self) -> tuple[bool, bool, tuple[tuple[int, bool, Device], ...]]:
        """What a compiled program depends on beside values."""
        values = self.variables.values()
        if not values:
            return self.training, self.frozen, ()
        held = [(id(value), value.place is None, value.tensor.spec.device) for value in values]
        return self.training, self.frozen, tuple(held)


@explained_as("Layer")
class LayerState(LayerMoves, HoldsFunctions):
    """What every layer and module can be asked for of the tensors it has, beside what it computes."""

    __slots__ = ("_own",)
    # Whether the layer may use other tensors in training than in use: its code is the user's.
    branches_in_training: ClassVar[bool] = False
    # Whether its commands on eager values follow from its options and the specs of its inputs.
    replays: ClassVar[bool] = False
    _own: OwnTensors

    @property
    def own(self) -> OwnTensors:
        """Tensors of the layer itself; there are none before the first call."""
        try:
            return self._own
        except AttributeError:
            object.__setattr__(self, "_own", OwnTensors())
            return self._own

    def layouts(self) -> Mapping[str, tuple[int, ...]]:
        """Of tensors that PyTorch has in another order: our axes in the order of theirs, by name."""
        return {}

    def sized_tensors(self) -> SizedTensors:
        """The parameters whose sizes the options say, which are there before the first call where somebody asks."""
        return {}

    def named_children(self) -> list[tuple[str, LayerState]]:
        """The layers right below this one, with their names: as far as they are known before the first call."""
        return list(self.own.parts.items())

    def children(self) -> list[LayerState]:
        """The layers right below this one."""
        return [child for _, child in self.named_children()]

    def named_modules(self) -> list[tuple[str, LayerState]]:
        """This layer and all below it with their paths; one that several share stands where it comes first."""
        reached: list[tuple[str, LayerState]] = []
        waiting: list[tuple[str, LayerState]] = [("", self)]
        seen: set[int] = set()
        while waiting:
            path, layer = waiting.pop()
            if id(layer) not in seen:
                seen.add(id(layer))
                reached.append((path, layer))
                below = layer.named_children()
                if below:
                    waiting += [(dotted(path, name), child) for name, child in reversed(below)]
        return reached

    def modules(self) -> list[LayerState]:
        """This layer and all below it."""
        return [layer for _, layer in self.named_modules()]

    def named_parameters(self) -> list[tuple[str, Variable]]:
        """The variables that may be trained with their paths, frozen ones too; a shared one by its first path."""
        self.make_sized_tensors()
        named: dict[int, tuple[str, Variable]] = {}
        for path, variable in self.named_variables():
            named.setdefault(id(variable), (path, variable))
        return list(named.values())

    def make_sized_tensors(self) -> None:
        """Make those whose sizes options say, where the first call is yet to come."""
        for layer in self.modules():
            if tensors := layer.sized_tensors():
                make_sized(tensors, layer.own.variables)

    def named_variables(self) -> list[tuple[str, Variable]]:
        """Those of each layer, one that several share by each of its names."""
        return [
            (dotted(path, name), variable)
            for path, layer in self.named_modules()
            for name, variable in layer.own.variables.items()
        ]

    def parameters(self) -> Parameters:
        """The variables that may be trained, to go through: those that there are at that time."""
        return Parameters(self)

    def trainable_parameters(self) -> dict[str, Variable]:
        """Those that are not frozen, by path."""
        trained: dict[str, Variable] = {}
        seen: set[int] = set()
        for path, layer in self.named_modules():
            own = layer.own
            if not own.frozen and own.variables:
                for name, variable in own.variables.items():
                    if variable.place is not None and id(variable) not in seen:
                        seen.add(id(variable))
                        trained[dotted(path, name)] = variable
        return trained

    def named_buffers(self) -> list[tuple[str, Variable]]:
        """The running statistics with their paths."""
        return [
            (dotted(path, name), variable)
            for path, layer in self.named_modules()
            for name, variable in layer.own.statistics.items()
        ]

    def buffers(self) -> list[Variable]:
        """The running statistics."""
        return [variable for _, variable in self.named_buffers()]

    def state_dict(self) -> dict[str, Variable]:
        """Copies of all parameters and statistics by path, as `Model.state_dict` names them: constants.

        A tensor that layers share stands under each of its names. What a copy is given in place, the layer has too, as
        in PyTorch; UsageError where the layer was trained meanwhile.

        >>> layer = nn.Linear(2, 2)
        >>> layer.state_dict()["bias"].fill_(3).tolist(), layer.bias.tolist()
        ([3.0, 3.0], [3.0, 3.0])
        """
        return {path: variable.snapshot() for path, variable in self._tensors().items()}

    def update(self, parameters: Tree) -> Self:
        """Set those parameters and statistics that there are values of, nested as `parameters()` has them, as in MLX.

        FormatError for values that fit none of this layer's tensors, and then nothing is set.

        >>> layer = nn.Linear(2, 2)
        >>> layer.update(nnc.utils.tree_map(lambda p: p * 0.0, layer.parameters())).weight.tolist()
        [[0.0, 0.0], [0.0, 0.0]]
        """
        leaves, structure = flatten(parameters)
        if structure is LEAF:
            raise ArgumentError("update", got=f"parameters={shown(parameters)}", need="arrays by path")
        arrays = {path: host_array(leaf) for path, leaf in zip(structure.paths(), leaves, strict=True)}
        self.take_tensors(arrays, ("of another shape", "unexpected"))
        return self

    def _tensors(self) -> dict[str, Variable]:
        """What files hold: all but buffers that are not to be kept."""
        transient = {
            dotted(path, name)
            for path, layer in self.named_modules()
            if layer.own.transient
            for name in layer.own.transient
        }
        buffers = [(path, variable) for path, variable in self.named_buffers() if path not in transient]
        self.make_sized_tensors()
        return dict([*self.named_variables(), *buffers])

    def load_state_dict(self, values: Mapping[str, ArrayLike], *, strict: bool = True) -> UnfitKeys:
        """Set parameters and statistics; those that the first call is yet to make begin with these values.

        Weights of convolutions may be in PyTorch's order, in which those of its other layers are anyway.
        FormatError names what is missing or of another shape, and then nothing is set; unless `strict`, it is left out
        and given back.
        """
        if not isinstance(values, Mapping):
            raise ArgumentError("load_state_dict", got=f"values={shown(values)}", need="arrays by path")
        arrays = {path: host_array(value) for path, value in values.items()}
        layouts = {
            dotted(path, name): axes for path, layer in self.named_modules() for name, axes in layer.layouts().items()
        }
        ours = all(isinstance(values[path], Variable) for path in layouts.keys() & values.keys())
        arrays = arrays if ours else in_our_order(arrays, self._tensors(), layouts)
        return self.take_tensors(arrays, EXACT if strict else ())

    def take_tensors(self, arrays: Arrays, refused: Collection[str]) -> UnfitKeys:
        """Arrays in our order, with the kinds of what does not fit that are errors."""
        known = self._tensors()
        unfit = unfit_keys(known, arrays)
        if not self.own.called:
            unfit = unfit._replace(unexpected_keys=[])
        check_fits(unfit, refused, len(known))
        self.own.pending = {} if self.own.called else {path: arrays[path] for path in arrays.keys() - known.keys()}
        for path in known.keys() & arrays.keys() - set(unfit.other_shapes):
            known[path].become(eager.tensor(arrays[path], known[path].dtype, device=known[path].device))
        return unfit

    def save(self, path: Path | str) -> None:
        """Write parameters and statistics by path into a safetensors file; the old one stays until this is whole."""
        save_tensors(path, {name: variable.tensor for name, variable in self._tensors().items()}, OF_LAYERS)

    def load(self, path: Path | str, *, strict: bool = True) -> Self:
        """Set parameters and statistics to those of a file, as `load_state_dict` does; gives the layer back."""
        given = {name: entry.numpy() for name, entry in stored_tensors(path).items()}
        if not is_of_layers(path):
            self.load_state_dict(given, strict=strict)
        else:
            self.take_tensors(given, EXACT if strict else ())
        return self

    # The words of MLX and Keras for both.
    save_weights = save
    load_weights = load

    def train(self, mode: bool = True) -> Self:
        """Calls are those of training: layers drop and draw, and normalize by the batch. Layers begin so."""
        for layer in self.modules():
            layer.own.training = mode
        return self

    def eval(self) -> Self:
        """Calls are those of use: nothing is dropped, and statistics stay."""
        return self.train(False)

    @property
    def training(self) -> bool:
        """Whether calls are those of training."""
        return self.own.training

    def freeze(self, *, recurse: bool = True, keys: str | Collection[str] | None = None) -> Self:
        """Keep the parameters of this layer and of those below it as they are, here and in models.

        With `keys` those of these names, such as "bias"; unless it should `recurse`, those of this layer.
        """
        for layer in self.modules() if recurse else [self]:
            layer.own.frozen |= keys is None
            layer.own.let_train(keys or (), False)
        return self

    def unfreeze(self, *, recurse: bool = True, keys: str | Collection[str] | None = None) -> Self:
        """Train them again, those too that `p.requires_grad = False` keeps.

        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> list(net.freeze().unfreeze(keys="bias").trainable_parameters())
        ['0.bias', '1.bias']
        """
        for layer in self.modules() if recurse else [self]:
            own = layer.own
            own.let_train(own.variables if own.frozen and keys is not None else (), False)
            own.frozen = False
            own.let_train(own.variables if keys is None else keys, True)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """`unfreeze()`, or with False `freeze()`: PyTorch's name for both."""
        return self.unfreeze() if requires_grad else self.freeze()

    # ---- for `Layer`

    def replay_options(self) -> tuple[object, ...]:
        """The options of a layer that `replays`, as far as they may be set later."""
        return ()

    def restricted(self, scope: Scope[Any]) -> Scope[Any]:
        """The scope, whose parameters are not trained where the layer is frozen.

        A layer with tensors of its own says so itself: one that took its place later, or that is unfrozen, is trained
        within a frozen one. Parts that a layer makes as it is built go with it.
        """
        own: OwnTensors | None = getattr(self, "_own", None)
        if own is None:
            return scope
        outer = scope.resolve
        plain = outer.resolve if isinstance(outer, Untrained) else outer
        resolve = Untrained(plain) if own.frozen else plain
        return scope if resolve == outer else replace(scope, resolve=resolve)

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401  # as object has it
        reduced = super().__reduce_ex__(protocol)
        own: OwnTensors | None = getattr(self, "_own", None)
        if isinstance(reduced, str):
            return reduced
        if type(self).__setstate__ is not LayerState.__setstate__:
            return reduced if own is None else (_restored, (reduced[:3], own))
        # As a state that is set behind the making: attributes may refer to the layer again.
        make, given, state = (*reduced, None)[:3]
        return make, given, (state, own)

    def __setstate__(self, state: tuple[Any, OwnTensors | None]) -> None:
        attributes, own = state
        fields, slots = attributes if isinstance(attributes, tuple) else (attributes, None)
        for name, value in {**(fields or {}), **(slots or {})}.items():
            object.__setattr__(self, name, value)
        if own is not None:
            object.__setattr__(self, "_own", own)


class Parameters(TreeNode):
    """The parameters of a layer, whenever somebody goes through them: the first call makes them.

    Functions of nested values (`nnc.save`, `nnc.tree.map`, `nnc.grad`, …) take them as a dictionary by path.
    """

    def __init__(self, layer: LayerState) -> None:
        self.layer = layer
        self._left: Iterator[Variable] | None = None

    def __iter__(self) -> Iterator[Variable]:
        return iter([variable for _, variable in self.layer.named_parameters()])

    def __next__(self) -> Variable:
        """The first one, then those behind it: `next(net.parameters())`, as of a generator."""
        if self._left is None:
            self._left = iter(self)
        return next(self._left)

    def __len__(self) -> int:
        return len(self.layer.named_parameters())

    def opened(self) -> dict[str, Variable]:
        """All by path."""
        return dict(self.layer.named_parameters())

    def named(self) -> dict[str, Variable]:
        """Those that are trained, by path."""
        return self.layer.trainable_parameters()


def dotted(path: str, name: str) -> str:
    """The path of a name below a path."""
    return f"{path}.{name}" if path and name else path or name


def _restored(reduced: tuple[Any, ...], own: OwnTensors) -> Any:  # noqa: ANN401  # the layer
    """A layer that sets its state itself, of what `__reduce_ex__` gave."""
    make, given, state = (*reduced, None)[:3]
    layer = make(*given)
    if state is not None:
        layer.__setstate__(state)
    object.__setattr__(layer, "_own", own)
    return layer
