"""Functions whose derivatives are said beside them, as JAX and MLX write it: `custom_jvp` and `custom_function`.

    @nnc.custom_jvp                              @nnc.custom_function
    def f(x): …                                  def f(x): …
    @f.defjvp                                    @f.vjp
    def rule(primals, tangents): …               def rule(primals, cotangent, output): …

A rule of tangents is linear in them: the gradient is its transpose, u ↦ Jᵀ u.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnc.arguments import checked, shown
from nnc.autograd import custom_vjp
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms.pullback import vjp
from nnc.dynamic.tree import Tree, map_leaves
from nnc.errors import ArgumentError, UsageError
from nnc.ops.movement.fill import fill_like

__all__ = ["custom_function", "custom_jvp"]

Rule = Callable[..., Any]


class custom_jvp(custom_vjp):  # noqa: N801  # JAX's name, of a decorator
    """A function whose derivative `defjvp` says: `rule(primals, tangents)` gives the value and its change, as in JAX.

    >>> f = nnc.custom_jvp(lambda x: x * 2)
    >>> f.defjvp(lambda primals, tangents: (f(*primals), 10 * tangents[0])) is not None
    True
    >>> nnc.grad(f)(1.0).item(), nnc.jvp(f, (1.0,), (1.0,))[1].item()
    (10.0, 10.0)
    """

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401  # what the function takes
        """The function's value."""
        if self._rules is None:
            need, fix = "a rule of tangents", "f.defjvp(rule) before"
            raise UsageError("custom_jvp", got="none", need=need, fix=fix, origin=caller_origin())
        return super().__call__(*args)

    @checked
    def defjvp(self, jvp: Rule, symbolic_zeros: bool = False) -> Rule:
        """Set the rule, and give it back."""

        def forward(*args: Any) -> tuple[Any, Any]:  # noqa: ANN401  # what the function takes
            return self.fun(*args), [arg for place, arg in enumerate(args) if place not in self.static]

        def backward(*given: Any) -> tuple[Any, ...]:  # noqa: ANN401  # static arguments, primals, the slope
            *static, primals, slope = given
            return _transposed(lambda tangents: _pair(jvp(*static, tuple(primals), tangents)), primals, slope)

        super().defvjp(forward, backward)
        return jvp

    @checked
    def defjvps(self, *jvps: Rule | None) -> None:
        """A rule for each argument, `rule(tangent, value, *primals)`, whose results are summed; None where it is 0."""

        def both(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            value = self(*primals)
            moved = [rule(t, value, *primals) for rule, t in zip(jvps, tangents, strict=True) if rule is not None]
            return value, sum(moved[1:], moved[0]) if moved else map_leaves(lambda y: fill_like(y, 0.0), value)

        self.defjvp(both)


class custom_function(custom_vjp):  # noqa: N801  # MLX's name, of a decorator
    """A function whose gradient `vjp` says, or `jvp` its change, as in MLX; without either its own are followed.

    >>> f = nnc.custom_function(lambda x: x * 2)
    >>> rule = f.vjp(lambda primals, cotangent, output: cotangent * 10)
    >>> nnc.grad(f)(1.0).item()
    10.0
    """

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401  # what the function takes
        """The function's value."""
        return self.fun(*args) if self._rules is None else super().__call__(*args)

    @checked
    def vjp(self, f: Rule) -> Rule:
        """Set `f(primals, cotangent, output)`, which gives a gradient for each argument; of one argument bare."""

        def forward(*args: Any) -> tuple[Any, Any]:  # noqa: ANN401  # what the function takes
            value = self.fun(*args)
            return value, (args, value)

        def backward(kept: Any, slope: Any) -> Any:  # noqa: ANN401  # what `forward` kept
            args, value = kept
            slopes = f(args[0] if len(args) == 1 else args, slope, value)
            return (slopes,) if len(args) == 1 and not isinstance(slopes, tuple | list) else slopes

        self.defvjp(forward, backward)
        return f

    @checked
    def jvp(self, f: Rule) -> Rule:
        """Set `f(primals, tangents)`, which gives the change of the value; of one argument both bare."""

        def forward(*args: Any) -> tuple[Any, Any]:  # noqa: ANN401  # what the function takes
            return self.fun(*args), args

        def backward(args: Any, slope: Any) -> Any:  # noqa: ANN401  # what `forward` kept
            bare = len(args) == 1
            return _transposed(lambda ts: f(*((args[0], ts[0]) if bare else (args, ts))), args, slope)

        self.defvjp(forward, backward)
        return f


def _transposed(rule: Rule, primals: Sequence[Any], slope: Tree) -> tuple[Any, ...]:
    """The transpose of a rule of tangents, applied to the slope: a gradient for each primal."""
    zeros = [map_leaves(_zero, primal) for primal in primals]
    return tuple(vjp(lambda *tangents: rule(tangents), *zeros)[1](slope))


def _zero(primal: Any) -> Any:  # noqa: ANN401  # an array or a number
    """The tangent of what does not move."""
    if not isinstance(primal, ArrayOperand | float | int | complex) and not hasattr(primal, "__array__"):
        got, fix = f"an argument {shown(primal)}", "nondiff_argnums=(0,) for what has no derivative"
        raise UsageError("custom_jvp", got=got, need="arrays", fix=fix, origin=caller_origin())
    operand = as_operand(primal)
    return fill_like(operand if operand.dtype.is_continuous else operand.astype("float32"), 0.0)


def _pair(made: Any) -> Any:  # noqa: ANN401  # the tangent
    if not isinstance(made, tuple | list) or len(made) != 2:
        need = "(value, tangent) of the rule"
        raise ArgumentError("custom_jvp", got=shown(made), need=need, origin=caller_origin())
    return made[1]
