"""Functions that go over the layers and parameters of a layer: PyTorch's `apply`, and MLX's beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Self, TypeVar

import numpy as np

from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, UsageError
from nnc.nn.state.layer_hooks import HookedLayer

V = TypeVar("V")


def _at(subject: str, path: str, known: Mapping[str, V]) -> V:
    if path not in known:
        close = get_close_matches(path, known, n=1)
        fix = f"did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(subject, got=repr(path), need=f"one of {', '.join(map(repr, known))}", fix=fix)
    return known[path]


class LayerWalks(HookedLayer):
    """What a layer is asked to do with all that is below it."""

    __slots__ = ()

    def named_modules(self) -> Sequence[tuple[str, Any]]:
        """This layer and those below it, by path."""
        raise NotImplementedError

    def named_parameters(self) -> Iterable[tuple[str, Variable]]:
        """Paths and parameters."""
        raise NotImplementedError

    def update(self, parameters: Any) -> Self:  # noqa: ANN401  # nested values
        """Set parameters by path."""
        raise NotImplementedError

    @checked
    def apply(
        self, function: Callable[..., Any], filter_fn: Callable[[Any, str, Variable], object] | None = None
    ) -> Self:
        """Call the function on each layer below this one, and then on this one.

        With MLX's `filter_fn(layer, name, parameter)` the function is one of arrays: each parameter for which it holds
        becomes what the function gives for it.

        >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> net.apply(lambda p: p * 0.0, nn.Module.valid_parameter_filter)[0].weight.tolist()
        [[0.0, 0.0], [0.0, 0.0]]
        """
        if filter_fn is not None:
            return self.update({path: function(old) for path, old in self._parameters_where(filter_fn).items()})
        for _, layer in reversed(self.named_modules()):
            try:
                function(layer)
            except (TypeError, AttributeError, UsageError) as error:
                # What went wrong is the function's own matter, unless it was meant for arrays.
                fix = "net.apply(f, lambda layer, name, parameter: True)"
                note = f"apply: the function got a {type(layer).__name__}, as in PyTorch. For one of arrays, as in MLX"
                error.add_note(f"{note}. Fix: {fix}")
                raise
        return self

    @checked
    def apply_to_modules(self, apply_fn: Callable[[str, Any], object]) -> Self:
        """Call the function on the path and the layer of this layer and each below it, as in MLX.

        >>> names = []
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).apply_to_modules(lambda path, layer: names.append(path))
        >>> names
        ['', '0', '1']
        """
        for path, layer in self.named_modules():
            apply_fn(path, layer)
        return self

    @checked
    def filter_and_map(
        self,
        filter_fn: Callable[[Any, str, Variable], object],
        map_fn: Callable[[Variable], Any] | None = None,
    ) -> dict[str, Any]:
        """By path what the function gives for each parameter for which `filter_fn(layer, name, parameter)` holds.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> net.filter_and_map(nn.Module.trainable_parameter_filter, lambda p: p.shape)
        {'0.weight': (3, 2), '0.bias': (3,)}
        """
        chosen: Mapping[str, Any] = self._parameters_where(filter_fn)
        return {path: value if map_fn is None else map_fn(value) for path, value in chosen.items()}

    @checked
    def get_submodule(self, target: str) -> Any:  # noqa: ANN401  # a layer
        """The layer at a path, this one at "".

        >>> nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU())).get_submodule("1.0")
        ReLU()
        """
        return _at("get_submodule", target, dict(self.named_modules()))

    @checked
    def get_parameter(self, target: str) -> Variable:
        """The parameter at a path.

        >>> nn.Sequential(nn.Linear(2, 3)).get_parameter("0.weight").shape
        (3, 2)
        """
        return _at("get_parameter", target, dict(self.named_parameters()))

    def zero_grad(self) -> None:
        """Forget the gradients that `backward` left at the parameters."""
        for _, variable in self.named_parameters():
            variable.grad = None

    def _parameters_where(self, filter_fn: Callable[[Any, str, Variable], object]) -> dict[str, Variable]:
        """Parameters for which the filter holds, by path."""
        layers = dict(self.named_modules())
        chosen: dict[str, Variable] = {}
        for path, parameter in self.named_parameters():
            place, _, name = path.rpartition(".")
            holds = filter_fn(layers.get(place, self), name, parameter)
            if isinstance(holds, np.ndarray) and holds.ndim:
                got, need = f"an array of shape {holds.shape} for {path}", "whether it is chosen"
                raise UsageError("filter_and_map", got=got, need=need, fix="x.all() or x.any()", origin=caller_origin())
            if holds:
                chosen[path] = parameter
        return chosen

    @staticmethod
    def valid_parameter_filter(layer: Any, name: str, parameter: Variable) -> bool:  # noqa: ANN401  # a layer
        """True: of each parameter, MLX's word for `apply` and `filter_and_map`."""
        return True

    @staticmethod
    def trainable_parameter_filter(layer: Any, name: str, parameter: Variable) -> bool:  # noqa: ANN401  # a layer
        """Whether it is trained."""
        known = isinstance(layer, LayerWalks) and isinstance(parameter, Variable)
        if not known:
            got, need = f"{type(layer).__name__} and {type(parameter).__name__}", "a layer, a name and its parameter"
            raise UsageError("trainable_parameter_filter", got=got, need=need, fix="give it to net.filter_and_map")
        return parameter.requires_grad and not layer.own.frozen
