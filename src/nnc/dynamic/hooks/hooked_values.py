"""What a value can be asked to do when its gradient comes: `register_hook`, `retain_grad`, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.hooks.hook_handle import HookHandle
from nnc.errors import UsageError

# What a leaf's gradient goes through, and what is called behind that.
LeafHooks: TypeAlias = tuple[list[Callable[[Any], Any]], list[Callable[[Any], object]]]


class HookedValue:
    """A value of a record, with hooks on its gradient."""

    __slots__ = ()

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle[Any]:
        """Call `hook(gradient)` whenever `backward` comes here; what it gives takes its place, unless None.

        It holds for all that this value was computed from. `nnc.grad` and `nnc.autograd.grad` do not hear it.

        >>> x = nnc.variable([1.0, 2.0])
        >>> y = x * 3.0
        >>> handle = y.register_hook(lambda g: g * 10.0)
        >>> y.sum().backward()
        >>> x.grad.tolist()
        [30.0, 30.0]
        """
        _refuse_in_trace(self, "register_hook")
        hooks = _leaf_hooks(self)[0] if _is_trained_leaf(self) else _graph_of(self).hooks_of(self)
        hooks.append(hook)
        return HookHandle(hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], object]) -> HookHandle[Any]:
        """Call `hook(leaf)` when `backward` has added to its `grad`: a step of an optimizer for each leaf.

        >>> w = nnc.variable([1.0, 2.0])
        >>> handle = w.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad.tolist()))
        >>> (w * 2.0).sum().backward()
        [2.0, 2.0]
        """
        subject = "register_post_accumulate_grad_hook"
        _refuse_in_trace(self, subject)
        if not _is_trained_leaf(self):
            raise UsageError(subject, got="a value that is no leaf", need="a leaf", origin=caller_origin())
        hooks = _leaf_hooks(self)[1]
        hooks.append(hook)
        return HookHandle(hooks, hook)

    def retain_grad(self) -> None:
        """Let `grad` have the gradient though this is no leaf.

        >>> x = nnc.variable([1.0, 2.0])
        >>> y = x * 3.0
        >>> y.retain_grad()
        >>> (y * y).sum().backward()
        >>> y.grad.tolist()
        [6.0, 12.0]
        """
        _refuse_in_trace(self, "retain_grad")
        if not _is_trained_leaf(self):
            _graph_of(self).retain(self)

    @property
    def leaf_hooks(self) -> LeafHooks | None:
        """Hooks of a leaf, where it has such."""
        return getattr(self, "_heard", None)


def _graph_of(value: Any) -> Any:  # noqa: ANN401  # the graph of a variable, which is made above
    return value.graph


def _is_trained_leaf(value: Any) -> bool:  # noqa: ANN401  # a variable
    return value.requires_grad and value.is_leaf  # type: ignore[no-any-return]  # truth values


def _leaf_hooks(value: Any) -> LeafHooks:  # noqa: ANN401  # a variable
    if value.leaf_hooks is None:
        value._heard = ([], [])
    return value._heard  # type: ignore[no-any-return]  # as it was set


def _refuse_in_trace(value: Any, subject: str) -> None:  # noqa: ANN401  # a variable
    if _graph_of(value).gradients_of_trace() is not None:
        got, need = "a function that is being compiled", "an eager loop"
        fix = "nnc.custom_vjp says a gradient in compiled functions"
        raise UsageError(subject, got=got, need=need, fix=fix, origin=caller_origin())
