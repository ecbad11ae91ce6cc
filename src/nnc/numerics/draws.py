"""Random numbers, other ones at each call or those of a key, under the names of MLX, JAX, NumPy and PyTorch.

    nnc.random.seed(0); nnc.random.normal((2, 3)); nnc.random.uniform((2,), -1.0, 1.0); nnc.random.randint(0, 10, (4,))
    key = nnc.random.key(0); one, other = nnc.random.split(key); nnc.random.normal(one, (2, 3))
    nnc.random.permutation(10), choice(10, (3,), replace=False), bernoulli(0.3, (4,)), categorical(logits)

A key is an array, an i64 of no axes that is a counter of `nnc.ops.random`: it goes into compiled functions and through
`vmap` as arrays do, and what is drawn by it depends on it alone. A first argument that is an array is a key, as in JAX;
one that is a float is a bound or a mean, as in NumPy: `uniform(0.0, 1.0, (2, 3))`, `normal(0.0, 1.0, (2, 3))`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, overload

import numpy as np

from nnc import ops
from nnc.arguments import Count, checked
from nnc.array_api.creation import chosen_device
from nnc.classes import dataclass
from nnc.core.values.dtype import F32, F64, I64, AnyDType, dtype_of
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.eager import tensor
from nnc.dynamic.transforms import randomness
from nnc.dynamic.transforms.randomness import SEEDS, dropout, seed
from nnc.dynamic.variable import Variable
from nnc.errors import ArityError, AttributeValueError, DTypeError, ShapeError
from nnc.numerics.comparison import finfo
from nnc.numerics.conversion import AnyArray, AnyDevice, Array, Sizes, as_array, asked, pair, place_of, sizes_of
from nnc.ops.number import INTEGERS

__all__ = [
    "PRNGKey", "bernoulli", "categorical", "choice", "dropout", "exponential", "fold_in", "gumbel", "key", "laplace",
    "multivariate_normal", "normal", "permutation", "rand", "rand_like", "randint", "randn", "randn_like", "random",
    "seed", "split", "standard_normal", "uniform",
]  # fmt: skip

# Seeds of what a key is used for, so that children and draws of one key have nothing in common.
CHILDREN, FOLDED, DRAWN = 1, 2, 0
HALF = 1 << 31

Start = Sizes | float | Array
P = ParamSpec("P")


def key(seed: int) -> Array:
    """The key of a seed, 0 to 2^31 - 1.

    >>> nnc.random.key(0).dtype
    i64
    """
    if isinstance(seed, bool) or not isinstance(seed, INTEGERS) or not 0 <= seed < SEEDS:
        raise AttributeValueError("key", got=f"{seed!r}", need="an integer 0 ≤ seed < 2^31")
    return split(tensor(np.int64(seed)), 1)[0]


def split(key: Array, num: int = 2) -> Array:
    """So many new keys, which draw what neither the others nor the old one draw.

    >>> nnc.random.split(nnc.random.key(0), 3).shape
    (3,)
    """
    return _children(_checked(key), num, CHILDREN)


def fold_in(key: Array, data: AnyArray) -> Array:
    """The key of this one and a number, such as a step.

    >>> nnc.random.fold_in(nnc.random.key(0), 7).shape
    ()
    """
    number = ops.cast(as_array(data), I64)
    return _children(_checked(key) + number * 0x9E3779B9, 1, FOLDED)[0]


def _children(key: Array, num: int, use: int) -> Array:
    """62 bits of two draws each."""
    words = ops.random_uniform(key, TensorSpec((num, 2), F64), 0.0, float(HALF), seed=use)
    halves = ops.cast(ops.floor(words), I64)
    return halves[:, 0] * HALF + halves[:, 1]


def _checked(key: object) -> Array:
    if not isinstance(key, Array) or key.dtype is not I64 or key.ndim:
        got = str(key.spec) if isinstance(key, Array) else f"a {type(key).__name__}"
        raise AttributeValueError("random", got=got, need="a key", fix="nnc.random.key(0), or one row of split(key, n)")
    return key


@dataclass(frozen=True, slots=True)
class _Draw:
    """What a draw of two parameters is asked for: bounds, or mean and deviation."""

    shape: Sizes
    first: float
    second: float
    dtype: AnyDType
    key: Array | None

    def placed(self, args: tuple[Any, ...]) -> _Draw:
        """With what stands by position: shape first, a key first as in JAX, or a float first as in NumPy."""
        if not args:
            return self
        if isinstance(args[0], Array):
            shape, dtype, first, second = _filled(args[1:], (self.shape, self.dtype, self.first, self.second))
            return _Draw(shape, first, second, dtype, args[0])
        if isinstance(args[0], float) or (len(args) > 2 and isinstance(args[2], tuple | list)):
            first, second, shape, dtype = _filled(args, (self.first, self.second, self.shape, self.dtype))
            return _Draw(shape, first, second, dtype, self.key)
        shape, first, second, dtype = _filled(args, (self.shape, self.first, self.second, self.dtype))
        return _Draw(shape, first, second, dtype, self.key)


def key_first(draw: Callable[P, Array]) -> Callable[P, Array]:
    """The same draw, whose key may also stand before its arguments, as in JAX."""

    @wraps(draw)
    def drawn(*args: P.args, **named: P.kwargs) -> Array:
        first: object = args[0] if args else None
        if isinstance(first, Array) and first.dtype is I64 and not first.ndim:
            named["key"] = first
            return draw(*args[1:], **named)  # type: ignore[arg-type]  # by position, which the types do not say
        return draw(*args, **named)

    return drawn


def _filled(args: tuple[Any, ...], otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) > len(otherwise):
        raise ArityError("random", got=f"{len(args)} arguments by position", need=f"at most {len(otherwise)}")
    return (*args, *otherwise[len(args) :])


def _drawn(draw: _Draw, eager: Callable[..., Array], keyed: Callable[..., Array]) -> Array:
    """Numbers of the process's own stream, or of a key."""
    sizes, dtype = sizes_of(draw.shape), dtype_of(draw.dtype)
    if draw.key is None:
        return eager(sizes, draw.first, draw.second, dtype)
    return keyed(_checked(draw.key), TensorSpec(sizes, dtype), draw.first, draw.second, seed=DRAWN)


@overload
def uniform(
    shape: Sizes = (), low: float = 0.0, high: float = 1.0, dtype: AnyDType = F32, *, key: Array | None = None
) -> Array: ...
@overload
def uniform(key: Array, shape: Sizes = (), dtype: AnyDType = F32, low: float = 0.0, high: float = 1.0) -> Array: ...
@overload
def uniform(
    low: float, high: float, shape: Sizes = (), dtype: AnyDType = F32, *, key: Array | None = None
) -> Array: ...
def uniform(
    *args: Start | AnyDType,
    shape: Sizes = (),
    low: float = 0.0,
    high: float = 1.0,
    dtype: AnyDType = F32,
    key: Array | None = None,
) -> Array:
    """Numbers in [low, high): `uniform((2, 3))`, `uniform(key, (2, 3))`, `uniform(-1.0, 1.0, (2, 3))`."""
    draw = _Draw(shape, low, high, dtype, key).placed(args)
    return _drawn(draw, randomness.uniform, ops.random_uniform)


@overload
def normal(
    shape: Sizes = (), mean: float = 0.0, deviation: float = 1.0, dtype: AnyDType = F32, *, key: Array | None = None
) -> Array: ...
@overload
def normal(
    key: Array, shape: Sizes = (), dtype: AnyDType = F32, mean: float = 0.0, deviation: float = 1.0
) -> Array: ...
@overload
def normal(
    mean: float, deviation: float, shape: Sizes = (), dtype: AnyDType = F32, *, key: Array | None = None
) -> Array: ...
def normal(
    *args: Start | AnyDType,
    shape: Sizes = (),
    mean: float = 0.0,
    deviation: float = 1.0,
    dtype: AnyDType = F32,
    key: Array | None = None,
) -> Array:
    """Normally distributed numbers: `normal((2, 3))`, `normal(key, (2, 3))`, `normal(0.0, 1.0, (2, 3))`."""
    draw = _Draw(shape, mean, deviation, dtype, key).placed(args)
    return _drawn(draw, randomness.normal, ops.random_normal)


def random(shape: Sizes = ()) -> Array:
    """Numbers in [0, 1).

    >>> nnc.random.random((2, 3)).shape
    (2, 3)
    """
    return uniform(shape)


def standard_normal(shape: Sizes = ()) -> Array:
    """Normally distributed numbers of mean 0 and deviation 1."""
    return normal(shape)


def rand(
    *shape: Sizes,
    dtype: AnyDType = F32,
    device: AnyDevice = None,
    key: Array | None = None,
    requires_grad: bool = False,
) -> Array:
    """Numbers in [0, 1): `rand(2, 3)`.

    >>> nnc.rand(2, 3).shape
    (2, 3)
    """
    with chosen_device(device):
        return asked(uniform(_together(shape), dtype=dtype, key=key), requires_grad)


def randn(
    *shape: Sizes,
    dtype: AnyDType = F32,
    device: AnyDevice = None,
    key: Array | None = None,
    requires_grad: bool = False,
) -> Array:
    """Normally distributed numbers: `randn(2, 3)`.

    >>> nnc.randn(2, 3).shape
    (2, 3)
    """
    with chosen_device(device):
        return asked(normal(_together(shape), dtype=dtype, key=key), requires_grad)


def _together(shape: tuple[Sizes, ...]) -> Sizes:
    """Sizes one by one, or as one tuple."""
    return shape[0] if len(shape) == 1 else shape  # type: ignore[return-value]  # `sizes_of` says what is none


def rand_like(x: AnyArray, dtype: AnyDType = F32) -> Array:
    """Numbers in [0, 1), of the shape of x.

    >>> nnc.rand_like(nnc.zeros((2, 3))).shape
    (2, 3)
    """
    return rand((like := as_array(x)).shape, dtype=dtype, device=like.device)


def randn_like(x: AnyArray, dtype: AnyDType = F32) -> Array:
    """Normally distributed numbers, of the shape of x.

    >>> nnc.randn_like(nnc.zeros((2, 3))).shape
    (2, 3)
    """
    return randn((like := as_array(x)).shape, dtype=dtype, device=like.device)


def randint(
    *args: Sizes | Array,
    low: int = 0,
    high: int | None = None,
    shape: Sizes = (),
    dtype: AnyDType = I64,
    device: AnyDevice = None,
    key: Array | None = None,
) -> Array:
    """Integers of [low, high): `randint(0, 10, (2, 3))`, `randint(10, (3,))`, `randint(key, (2, 3), 0, 10)`.

    >>> x = nnc.randint(0, 3, (100,))
    >>> x.min().item(), x.max().item()
    (0, 2)
    """
    if args and isinstance(args[0], Array):
        shape, low, high = _filled(args[1:], (shape, low, high))
        key = args[0]
    elif len(args) == 2 and isinstance(args[1], tuple | list):
        high, shape = args  # type: ignore[assignment]  # a bound and a shape
    elif len(args) == 1:
        (high,) = args  # type: ignore[assignment]  # a bound
    else:
        low, high, shape = _filled(args, (low, high, shape))
    bound, start = (low, 0) if high is None else (high, low)
    whole = isinstance(bound, INTEGERS) and isinstance(start, INTEGERS)
    if not (whole and -(1 << 63) <= start < bound < 1 << 63):
        raise AttributeValueError("randint", got="bounds without room", need="integers low < high, of 64 bits")
    with chosen_device(device):
        words = uniform(shape, 0.0, float(bound - start), F64, key=key)
    return ops.cast(ops.cast(ops.floor(words), I64) + int(start), dtype_of(dtype))


def bernoulli(*args: float | Sizes | Array, p: float = 0.5, shape: Sizes = (), key: Array | None = None) -> Array:
    """True with the probability p: `bernoulli(0.3, (4,))`, `bernoulli(key, 0.3, (4,))`.

    >>> nnc.random.bernoulli(0.3, (4,)).dtype
    bool
    """
    if args and isinstance(args[0], Array) and args[0].dtype is I64:
        key, args = args[0], args[1:]
    chance, sizes = _filled(args, (p, shape))
    limit = as_array(chance)
    with limit.device:
        return ops.less(*pair(uniform(sizes_of(sizes) or limit.shape, key=key), limit))


def permutation(*args: int | AnyArray, key: Array | None = None, axis: int = 0) -> Array:
    """The numbers below n, or the rows of x, in another order: `permutation(10)`, `permutation(key, x)`.

    >>> nnc.sort(nnc.random.permutation(4))
    Variable(i64[4], constant)
    [0 1 2 3]
    """
    if len(args) == 2:
        key, x = _checked(args[0]), args[1]
    else:
        (x,) = args
    if isinstance(x, INTEGERS):
        return uniform((int(x),), dtype=F64, key=key).argsort()
    rows = as_array(x)
    place = place_of("permutation", axis, rows.ndim)
    with rows.device:
        order = permutation(rows.shape[place], key=key)
    return ops.index_select(rows, order, place)


@key_first
def choice(
    *args: int | AnyArray | Sizes,
    shape: Sizes = (),
    replace: bool = True,
    p: AnyArray | None = None,
    key: Array | None = None,
) -> Array:
    """Numbers below n, or rows of x, by chance: `choice(10, (3,), replace=False)`, `choice(key, x, (3,))`.

    >>> nnc.random.choice(10, (3,), replace=False).shape
    (3,)
    """
    source, sizes = _filled(args, (None, shape))[:2]
    count = int(source) if isinstance(source, INTEGERS) else as_array(source).shape[0]
    wanted = sizes_of(sizes)
    many = int(np.prod(wanted, dtype=np.int64))
    with chosen_device(None if isinstance(source, INTEGERS) else as_array(source).device):
        places = _chosen(count, many, replace, p, key).reshape(wanted)
    return places if isinstance(source, INTEGERS) else as_array(source)[places]


def _chosen(count: int, many: int, replace: bool, p: AnyArray | None, key: Array | None) -> Array:
    if (not replace and many > count) or not count:
        raise AttributeValueError("choice", got=f"{many} of {count} without replacement", need="at least as many")
    if p is None:
        return randint(0, count, (many,), key=key) if replace else permutation(count, key=key)[:many]
    chances = continuous(as_array(p))
    if chances.shape != (count,):
        raise ShapeError("choice", got=f"p {chances.spec} for {count}", need="a probability for each")
    _weighing("choice", chances, 1 if replace else many)
    with chances.device:
        if not replace:
            # The largest of ln p + Gumbel noise are a sample without replacement (Vieira 2014).
            return (ops.log(chances) + gumbel((count,), chances.dtype, key)).argsort(descending=True)[:many]
        drawn, sums = uniform((many,), dtype=chances.dtype, key=key), chances.cumsum(0)
    result = ops.searchsorted(sums, drawn * sums[count - 1], right=True)
    return ops.minimum(result, ops.scalar_like(result, count - 1))


@key_first
def gumbel(shape: Sizes = (), dtype: AnyDType = F32, key: Array | None = None) -> Array:
    """-ln(-ln u)"""
    u = uniform(shape, dtype=dtype, key=key)
    # Without 0, whose logarithm is infinite.
    return -ops.log(-ops.log(ops.maximum(u, ops.scalar_like(u, finfo(u.dtype).smallest_normal))))


@key_first
def exponential(shape: Sizes = (), scale: float = 1.0, dtype: AnyDType = F32, key: Array | None = None) -> Array:
    """-scale · ln(1 - u)"""
    return ops.log1p(-uniform(shape, dtype=dtype, key=key)) * -scale


@key_first
def laplace(shape: Sizes = (), loc: float = 0.0, scale: float = 1.0, key: Array | None = None) -> Array:
    """Numbers of the density e^(-|x - loc| / scale) / (2 scale)."""
    around = uniform(shape, -1.0, 1.0, key=key)
    return ops.sign(around) * ops.log1p(-ops.abs(around)) * -scale + loc


@key_first
def categorical(logits: AnyArray, axis: int = -1, shape: Sizes | None = None, key: Array | None = None) -> Array:
    """Places along the axis with the probabilities softmax(logits).

    >>> nnc.random.categorical(nnc.zeros((5, 3))).shape
    (5,)
    """
    array = continuous(as_array(logits))
    place = place_of("categorical", axis, array.ndim)
    sizes = () if shape is None else sizes_of(shape)
    with array.device:
        return (gumbel((*sizes, *array.shape), array.dtype, key) + array).argmax(len(sizes) + place)


def _weighing(subject: str, weights: Array, least: int) -> Array:
    """Weights of rows; those that are known now are checked, and so many places of a row have one above 0."""
    if isinstance(weights, Variable):
        values = np.asarray(weights.cpu().numpy(), np.float64)
        if not (np.isfinite(values).all() and (values >= 0).all() and ((values > 0).sum(-1) >= least).all()):
            need = f"finite weights ≥ 0, and in each row {least} above 0"
            raise AttributeValueError(subject, got=f"others, {weights.spec}", need=need)
    return weights


@checked
def multinomial(input: AnyArray, num_samples: Count, replacement: bool = False, key: Array | None = None) -> Array:
    """Places of input[…, n], drawn with probabilities as these numbers, [… , num_samples].

    >>> nnc.multinomial([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]], 1).tolist()
    [[1], [2]]
    """
    weights = continuous(as_array(input))
    if weights.dtype.kind == "complex":
        raise DTypeError("multinomial", got=str(weights.spec), need="real numbers")
    if weights.ndim not in (1, 2) or (not replacement and num_samples > weights.shape[-1]):
        got, need = f"{num_samples} of {weights.spec}", "[n] or [rows, n], and no more than n without replacement"
        raise ShapeError("multinomial", got=got, need=need)
    logits = ops.log(_weighing("multinomial", weights, 1 if replacement else num_samples))
    if replacement:
        drawn = categorical(logits, shape=(num_samples,), key=key)
        return drawn if weights.ndim == 1 else drawn.T
    with logits.device:
        return ops.top_k(logits + gumbel(weights.shape, weights.dtype, key), num_samples)[1].astype(I64)


@key_first
def multivariate_normal(mean: AnyArray, cov: AnyArray, shape: Sizes = (), key: Array | None = None) -> Array:
    """Normally distributed vectors of this mean and these covariances.

    >>> nnc.random.multivariate_normal(nnc.zeros(2), nnc.eye(2), (5,)).shape
    (5, 2)
    """
    center, spread = continuous(as_array(mean)), continuous(as_array(cov))
    with center.device:
        free = normal((*sizes_of(shape), center.shape[-1]), dtype=center.dtype, key=key)
    return ops.matmul(free, ops.cholesky(spread).mT) + center


PRNGKey = key
