"""Options of a model as its attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, Protocol, Self, TypeVar, overload

from nnc.arguments import check_made
from nnc.nn.model.rank_places import placed
from nnc.nn.steps.model_options import ModelOptions, OffloadFolder
from nnc.nn.steps.model_tensors import ModelTensors

V = TypeVar("V")


class HasOptions(Protocol):
    """A model, as far as its options go."""

    options: ModelOptions
    _own: ModelTensors

    def keep_states_in(self, folder: OffloadFolder | None) -> None:
        """Have the optimizer's state in a file of the folder, or in memory."""


class ModelOption(Generic[V]):
    """A field of the model's `options` as an attribute; set anew, it counts for programs that are planned later."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, model: None, owner: type) -> Self: ...
    @overload
    def __get__(self, model: HasOptions, owner: type) -> V: ...
    def __get__(self, model: HasOptions | None, owner: type) -> Self | V:
        return self if model is None else getattr(model.options, self._name)

    def __set__(self, model: HasOptions, value: V) -> None:
        check_made(ModelOptions, (), {self._name: value})
        model.options = replace(model.options, **{self._name: value})  # type: ignore[arg-type]  # of this field


class RanksOption(ModelOption[V]):
    """A field that says who keeps what; it is set before there are tensors that it would change."""

    def __set__(self, model: HasOptions, value: V) -> None:
        before, specs = model.options, model._own.specs
        super().__set__(model, value)
        try:
            model._own.specs = placed(model.options, specs)
            model._own.keep_by(model.options.sharding)
        except BaseException:
            model.options, model._own.specs = before, specs
            raise


class StateFolderOption(ModelOption[OffloadFolder | None]):
    """Where the optimizer's state lies in a file; set anew, its values move there, or into memory."""

    def __set__(self, model: HasOptions, value: OffloadFolder | None) -> None:
        before = model.options
        super().__set__(model, value)
        try:
            model.keep_states_in(model.options.state_folder)
        except BaseException:
            model.options = before
            raise
