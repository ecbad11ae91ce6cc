"""Layers of several inputs under Keras' names: `Add()([a, b])`, and the same as functions, `add([a, b])`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from inspect import signature
from typing import Any

from nnc import numerics as n
from nnc.arguments import Count, Share, checked
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms.randomness import dropout
from nnc.errors import ArgumentError, ArityError
from nnc.keras import initializers
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float
from nnc.keras.masks import mask_of

__all__ = [
    "Add", "AdditiveAttention", "Attention", "Average", "Concatenate", "Dot", "Maximum", "Minimum",
    "MultiHeadAttention", "Multiply", "Subtract", "add", "average", "concatenate", "dot", "maximum", "minimum",
    "multiply", "subtract",
]  # fmt: skip


class _Merge(Layer):
    supports_masking = True

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Steps that are real in one of the inputs, where all have masks."""
        masks = previous_mask if isinstance(previous_mask, list | tuple) else [previous_mask]
        return None if any(mask is None for mask in masks) else reduce(n.logical_or, masks)

    def call(self, inputs: Any) -> Any:
        """Of a list of operands."""
        if not isinstance(inputs, list | tuple) or not inputs:
            kind = type(self).__name__
            raise ArityError(kind, got="one operand", need="a list", fix=f"{kind}()([a, b])")
        return self._merged([as_operand(value) for value in inputs])

    def _merged(self, inputs: list[Any]) -> Any:
        raise NotImplementedError


class Add(_Merge):
    """a + b + …

    >>> from nnc import keras
    >>> keras.layers.Add()([n.ones(2), n.ones(2)]).tolist()
    [2.0, 2.0]
    """

    def _merged(self, inputs: list[Any]) -> Any:
        return reduce(lambda a, b: a + b, inputs)


class Subtract(_Merge):
    """a - b"""

    def _merged(self, inputs: list[Any]) -> Any:
        if len(inputs) != 2:
            raise ArityError("Subtract", got=f"{len(inputs)} operands", need="two")
        return inputs[0] - inputs[1]


class Multiply(_Merge):
    """a · b · …"""

    def _merged(self, inputs: list[Any]) -> Any:
        return reduce(lambda a, b: a * b, inputs)


class Average(_Merge):
    """(a + b + …) / count"""

    def _merged(self, inputs: list[Any]) -> Any:
        return reduce(lambda a, b: a + b, inputs) / len(inputs)


class Maximum(_Merge):
    """The largest of each element."""

    def _merged(self, inputs: list[Any]) -> Any:
        return reduce(n.maximum, inputs)


class Minimum(_Merge):
    """The smallest of each element."""

    def _merged(self, inputs: list[Any]) -> Any:
        return reduce(n.minimum, inputs)


class Concatenate(_Merge):
    """Operands one behind the other along the axis."""

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__(**options)
        self.axis = axis

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Steps that are real in one of the inputs, those of inputs without a mask among them."""
        if previous_mask is None or all(mask is None for mask in previous_mask):
            return None
        parts = [_wide_mask(value, mask) for value, mask in zip(inputs, previous_mask, strict=True)]
        return n.any(n.concatenate(parts, axis=self.axis), axis=-1)

    def _merged(self, inputs: list[Any]) -> Any:
        return n.concatenate(inputs, axis=self.axis)


def _wide_mask(value: Any, mask: Any) -> Any:
    """The mask for each element."""
    if mask is None:
        return n.ones(value.shape, dtype="bool", device=value.device)
    return n.broadcast_to(n.expand_dims(mask, -1), value.shape) if mask.ndim < value.ndim else mask


class Dot(_Merge):
    """Σ a · b over the axes, of each example; with `normalize` of unit vectors."""

    def __init__(self, axes: int | Sequence[int], normalize: bool = False, **options: Any) -> None:
        super().__init__(**options)
        given: Any = axes
        pair = tuple(given) if hasattr(given, "__len__") else (given, given)
        if len(pair) != 2:
            raise ArgumentError("Dot", got=f"axes={axes!r}", need="an axis, or one of each operand")
        self.axes, self.normalize = (int(pair[0]), int(pair[1])), normalize

    def _merged(self, inputs: list[Any]) -> Any:
        if len(inputs) != 2:
            raise ArityError("Dot", got=f"{len(inputs)} operands", need="two")
        a, b = inputs
        left, right = self.axes
        a, b = n.moveaxis(a, left, -1), n.moveaxis(b, right, 1)
        if self.normalize:
            a = a * n.rsqrt(n.maximum(n.sum(a * a, axis=-1, keepdims=True), 1e-12))
            b = b * n.rsqrt(n.maximum(n.sum(b * b, axis=1, keepdims=True), 1e-12))
        if a.ndim == 2 and b.ndim == 2:
            return n.sum(a * b, axis=1, keepdims=True)
        y = n.matmul(a if a.ndim > 2 else n.expand_dims(a, 1), b if b.ndim > 2 else n.expand_dims(b, 2))
        y = y if b.ndim > 2 else n.squeeze(y, axis=-1)
        return y if a.ndim > 2 else n.squeeze(y, axis=1)


def _as_function(layer: type[Any]) -> Callable[..., Any]:
    def merge(inputs: Sequence[Any], *args: Any, **options: Any) -> Any:
        return layer(*args, **options)(list(inputs))

    merge.__name__ = merge.__qualname__ = layer.__name__.lower()
    merge.__doc__ = f"`{layer.__name__}(…)(inputs)`"
    wrapper: Any = checked(merge)
    own, made = signature(merge), signature(layer)
    wrapper.__signature__ = own.replace(parameters=[own.parameters["inputs"], *made.parameters.values()])
    return wrapper  # type: ignore[no-any-return]  # a function


add, subtract, multiply, average = map(_as_function, (Add, Subtract, Multiply, Average))
maximum, minimum, concatenate, dot = map(_as_function, (Maximum, Minimum, Concatenate, Dot))


class MultiHeadAttention(Layer):
    """softmax(q kᵀ / √key_dim) v of each of `num_heads` heads, joined by a product (Vaswani et al. 2017).

    Kernels are Keras': [features, heads, key_dim], and [heads, value_dim, features] of the output.

    >>> from nnc import keras
    >>> x = n.ones((2, 5, 8))
    >>> keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)(x, x).shape
    (2, 5, 8)
    """

    supports_masking = True

    def __init__(
        self,
        num_heads: Count,
        key_dim: Count,
        value_dim: Count | None = None,
        dropout: Share = 0.0,
        use_bias: bool = True,
        output_shape: Count | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim or key_dim
        self.dropout, self.use_bias, self.out = dropout, use_bias, output_shape
        self.starts = initializers.get(kernel_initializer), bias_initializer

    def ensure_built(self, values: tuple[Any, ...]) -> None:
        """The weights, for a query, a value and a key of these features."""
        if not self.built:
            sizes = [value.shape[-1] for value in values[:3] if value is not None]
            query, value = sizes[0], sizes[min(1, len(sizes) - 1)]
            self.build((query, sizes[2] if len(sizes) > 2 else value, value))

    def make_weights(self, input_shape: Any) -> None:
        query, key, value = (input_shape[-1],) * 3 if len(input_shape) != 3 or None in input_shape else input_shape
        # In Keras' order: the kernel of each product, then its bias.
        for name, features, size in (
            ("query", query, self.key_dim), ("key", key, self.key_dim), ("value", value, self.value_dim)
        ):  # fmt: skip
            self._add(name, (features, self.num_heads, size), (self.num_heads, size))
        out = self.out or query
        self._add("output", (self.num_heads, self.value_dim, out), (out,))

    def _add(self, name: str, kernel: tuple[int, ...], bias: tuple[int, ...]) -> None:
        """The weights of one product."""
        self.add_weight(kernel, self.starts[0], name=f"{name}_kernel")
        if self.use_bias:
            self.add_weight(bias, self.starts[1], name=f"{name}_bias")

    def _projected(self, x: Any, kernel: Any, bias: Any) -> Any:
        """[batch, heads, steps, size]"""
        y = n.matmul(as_float(x), n.reshape(kernel, (kernel.shape[0], -1)))
        y = n.reshape(y, (*x.shape[:2], *kernel.shape[1:]))
        return n.transpose(y if bias is None else y + bias, (0, 2, 1, 3))

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:
        """Of query[batch, steps, features] over value and key; masks are true where one may look.

        Masks [batch, steps] of query, value and key are those that layers have told, where they are not said.
        """
        biases = (self.query_bias, self.key_bias, self.value_bias) if self.use_bias else (None,) * 3
        q = self._projected(query, self.query_kernel, biases[0]) * self.key_dim**-0.5
        k = self._projected(value if key is None else key, self.key_kernel, biases[1])
        v = self._projected(value, self.value_kernel, biases[2])
        scores = n.matmul(q, n.swapaxes(k, -1, -2))
        masks = [attention_mask, n.tril(n.ones(scores.shape[-2:], device=scores.device)) if use_causal_mask else None]
        for operand, said, axis in (query, query_mask, -1), (value, value_mask, -2), (key, key_mask, -2):
            steps = mask_of(operand) if said is None else said
            masks.append(None if steps is None else n.expand_dims(steps, axis))
        # [batch, heads, steps, steps]; each that has no heads is one for all.
        seen = [mask if mask.ndim == 4 else n.expand_dims(mask, -3) for mask in masks if mask is not None]
        if seen:
            scores = n.where(reduce(n.logical_and, [mask.astype("bool") for mask in seen]), scores, -1e9)
        shares = n.softmax(scores, axis=-1)
        dropped = dropout(shares, self.dropout) if training and self.dropout else shares
        y = n.transpose(n.matmul(dropped, v), (0, 2, 1, 3))
        y = n.reshape(y, (*y.shape[:2], -1))
        y = n.matmul(y, n.reshape(self.output_kernel, (-1, self.output_kernel.shape[-1])))
        y = y + self.output_bias if self.use_bias else y
        return (y, shares) if return_attention_scores else y


class Attention(Layer):
    """softmax(q kᵀ) v of [query, value] or [query, value, key]; masks are those of query and value."""

    def __init__(self, use_scale: bool = False, dropout: Share = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.use_scale, self.dropout = use_scale, dropout

    def ensure_built(self, values: tuple[Any, ...]) -> None:
        """The weights; ArityError for anything but a list of two or three."""
        given = values[0] if values else None
        if not isinstance(given, list | tuple) or len(given) not in (2, 3):
            need = "[query, value] or [query, value, key]"
            raise ArityError(type(self).__name__, got="another input", need=need)
        super().ensure_built(values)

    def make_weights(self, input_shape: Any) -> None:
        if self.use_scale:
            self.scale = self.add_weight((), "ones", name="scale")

    def _scores(self, q: Any, k: Any) -> Any:
        scores = n.matmul(q, n.swapaxes(k, -1, -2))
        return scores * self.scale if self.use_scale else scores

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """That of the query."""
        return None if previous_mask is None else previous_mask[0]

    def call(self, inputs: Any, mask: Any = None, training: bool = False, use_causal_mask: bool = False) -> Any:
        """[batch, steps, features] for each step of the query, zero where that is masked."""
        query, value = inputs[:2]
        real, seen = (*(mask or ()), None, None)[:2]
        scores = self._scores(query, inputs[2] if len(inputs) > 2 else value)
        seen = None if seen is None else n.expand_dims(seen, -2)
        if use_causal_mask:
            causal = n.tril(n.ones(scores.shape[-2:], device=scores.device)) > 0
            seen = causal if seen is None else n.logical_and(seen, causal)
        shares = n.softmax(scores if seen is None else n.where(seen, scores, -1e9), axis=-1)
        y = n.matmul(dropout(shares, self.dropout) if training and self.dropout else shares, value)
        return y if real is None else n.where(n.expand_dims(real, -1), y, 0.0)


class AdditiveAttention(Attention):
    """Attention whose scores are Σ scale · tanh(q + k)."""

    def __init__(self, use_scale: bool = True, dropout: Share = 0.0, **options: Any) -> None:
        super().__init__(use_scale, dropout, **options)

    def make_weights(self, input_shape: Any) -> None:
        if self.use_scale:
            self.scale = self.add_weight((input_shape[0][-1],), "glorot_uniform", name="scale")

    def _scores(self, q: Any, k: Any) -> Any:
        far = n.tanh(n.expand_dims(q, 2) + n.expand_dims(k, 1))
        return n.sum(far * self.scale if self.use_scale else far, axis=-1)
