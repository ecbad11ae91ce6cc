"""Functions that are called around a layer: before it, behind it, and when gradients have come back through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, TypeVar

from nnc.classes import dataclass
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.hooks.hook_handle import HookHandle
from nnc.dynamic.variable import Variable
from nnc.errors import UsageError
from nnc.nn.state.nested_outputs import NestedOutputs
from nnc.ops.movement.copy import contiguous

# Gets the layer, its inputs as a tuple (and arguments by name), and outputs; gives other outputs or None.
Hook: TypeAlias = Callable[..., Any]
# Gets the layer, gradients of its inputs and of its outputs; gives other gradients of its inputs or None.
BackwardHook: TypeAlias = Callable[[Any, tuple[Variable | None, ...], tuple[Variable | None, ...]], Any]

H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class LayerHook(HoldsFunctions):
    """A hook, and whether it gets arguments by name."""

    pickled_as: ClassVar[str] = "a layer's hooks"
    call: Hook
    with_kwargs: bool = False


class BackwardCall:
    """One call of a layer, of which gradients will come back: those of its outputs first, then those of its inputs."""

    def __init__(self, layer: object, hooks: list[BackwardHook]) -> None:
        self.layer, self.hooks = layer, tuple(hooks)
        self.of_inputs: list[Variable | None] = []
        self.of_outputs: list[Variable | None] = []
        self.waiting = 0

    def entered(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs, each another value of the record whose gradient is that of this call alone."""
        self.of_inputs = [None] * len(values)
        return tuple(self._seen(value, place, self._input_came) for place, value in enumerate(values))

    def left(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The outputs, whose gradients are taken down."""
        self.of_outputs = [None] * len(values)
        asked, self.waiting = self.waiting, 0
        seen = tuple(self._seen(value, place, self._output_came) for place, value in enumerate(values))
        self.waiting = asked
        return seen

    def _seen(self, value: Any, place: int, came: Callable[[int, Variable], Any]) -> Any:  # noqa: ANN401  # an operand
        if not isinstance(value, ArrayOperand):
            return value
        if not isinstance(value, Variable):
            got, need = "a function that is being compiled", "an eager call"
            raise UsageError("register_full_backward_hook", got=got, need=need, origin=caller_origin())
        if not value.requires_grad or not value.dtype.is_continuous:
            return value
        self.waiting += 1
        apart = contiguous(value)
        apart.register_hook(lambda gradient: came(place, gradient))
        return apart

    def _output_came(self, place: int, gradient: Variable) -> None:
        self.of_outputs[place] = gradient
        if not self.waiting:
            self._call()

    def _input_came(self, place: int, gradient: Variable) -> Variable | None:
        self.of_inputs[place] = gradient
        self.waiting -= 1
        if self.waiting:
            return None
        asked = sum(value is not None for value in self.of_inputs)
        self.waiting = asked
        changed = self._call()
        if changed is None:
            return None
        if asked > 1:
            got, need = f"other gradients of {asked} inputs", "None, or a layer of one input"
            raise UsageError("register_full_backward_hook", got=got, need=need, origin=caller_origin())
        given = changed if isinstance(changed, tuple | list) else (changed,)
        return given[place]  # type: ignore[no-any-return]  # what hooks give

    def _call(self) -> Any:  # noqa: ANN401  # what hooks give
        changed = None
        for hook in self.hooks:
            other = hook(self.layer, tuple(self.of_inputs), tuple(self.of_outputs))
            if other is not None:
                changed = other
                self.of_inputs = [*(other if isinstance(other, tuple | list) else (other,))]
        return changed


class LayerHooks:
    """The hooks of one layer."""

    def __init__(self) -> None:
        self.hooks: list[LayerHook] = []
        self.pre_hooks: list[LayerHook] = []
        self.backward_hooks: list[BackwardHook] = []

    @property
    def is_hooked(self) -> bool:
        """Whether somebody is called around the layer."""
        return bool(self.hooks or self.pre_hooks or self.backward_hooks)


class HookedLayer:
    """What a layer can be asked to call around it; `own` has its hooks."""

    __slots__ = ()

    @property
    def own(self) -> LayerHooks:
        """The hooks."""
        raise NotImplementedError

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle[LayerHook]:
        """Call `hook(layer, inputs)` before the layer is applied; what it gives takes the inputs' place.

        `inputs` are a tuple. `with_kwargs` it is `hook(layer, inputs, options)`, which gives nothing.
        """
        return _hooked(self.own.pre_hooks, LayerHook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle[LayerHook]:
        """Call `hook(layer, inputs, outputs)` whenever the layer is applied; what it gives takes the outputs' place.

        `inputs` are a tuple, `outputs` one value or a tuple. `with_kwargs` it is `hook(layer, inputs, options, y)`.

        >>> layer = nn.Linear(3, 2)
        >>> handle = layer.register_forward_hook(lambda layer, inputs, y: print(inputs[0].shape, y.shape))
        >>> y = layer(nnc.ones((4, 3)))
        (4, 3) (4, 2)
        """
        return _hooked(self.own.hooks, LayerHook(hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook: BackwardHook, prepend: bool = False) -> HookHandle[BackwardHook]:
        """Call `hook(layer, gradients of inputs, gradients of outputs)` when `backward` has come through the layer.

        What it gives takes the place of the gradient of the layer's only input. In compiled functions an error.

        >>> layer = nn.Linear(3, 2)
        >>> handle = layer.register_full_backward_hook(lambda layer, by_x, by_y: print(by_x[0].shape, by_y[0].tolist()))
        >>> layer(nnc.variable([[1.0, 1.0, 1.0]])).sum().backward()
        (1, 3) [[1.0, 1.0]]
        """
        return _hooked(self.own.backward_hooks, hook, prepend)

    # ---- for `Layer`

    def call_arguments(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by position and by name of a call with these inputs."""
        return values, {}

    def given(self, x: Any) -> tuple[Any, BackwardCall | None]:  # noqa: ANN401  # of any world
        """The inputs as hooks leave them, and who waits for gradients."""
        own: LayerHooks | None = getattr(self, "_own", None)
        if own is None or not (own.pre_hooks or own.backward_hooks):
            return x, None
        values = x if isinstance(x, tuple) else (x,)
        for hook in tuple(own.pre_hooks):
            if hook.with_kwargs:
                if hook.call(self, *self.call_arguments(values)) is not None:
                    got = "other arguments by name"
                    raise UsageError("register_forward_pre_hook", got=got, need="a hook that only looks at them")
                continue
            other = hook.call(self, values)
            if other is not None:
                values = other if isinstance(other, tuple) else (other,)
        call = BackwardCall(self, own.backward_hooks) if own.backward_hooks else None
        values = values if call is None else call.entered(values)
        return (values if isinstance(x, tuple) else values[0]), call

    def hooked(self, x: Any, outputs: Any, call: BackwardCall | None) -> Any:  # noqa: ANN401  # of any world
        """The outputs as hooks leave them, which get one output as it is and several as a tuple."""
        own: LayerHooks | None = getattr(self, "_own", None)
        if own is None:
            return outputs
        values = x if isinstance(x, tuple) else (x,)
        for hook in tuple(own.hooks):
            single = isinstance(outputs, tuple) and len(outputs) == 1
            seen = outputs[0] if single else outputs
            arguments = self.call_arguments(values) if hook.with_kwargs else (values,)
            other = hook.call(self, *arguments, seen)
            if other is not None:
                outputs = (other,) if single else other
        if call is None:
            return outputs
        left = call.left(outputs if isinstance(outputs, tuple) else (outputs,))
        if isinstance(outputs, NestedOutputs):
            return NestedOutputs(left, outputs.structure, outputs.leaves, outputs.places)
        return left if isinstance(outputs, tuple) else left[0]


def _hooked(hooks: list[H], hook: H, first: bool) -> HookHandle[H]:
    hooks.insert(0 if first else len(hooks), hook)
    return HookHandle(hooks, hook)
