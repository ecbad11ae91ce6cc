"""NumPy's functions of elements, a row each: what they mean is NumPy's page of that name."""

from functools import wraps
from typing import Any

import numpy as np
from numpy import errstate as errstate
from numpy import get_printoptions as get_printoptions
from numpy import geterr as geterr
from numpy import index_exp as index_exp
from numpy import iterable as iterable
from numpy import printoptions as printoptions
from numpy import s_ as s_
from numpy import seterr as seterr

from nnc.numerics.numpy_names.hosted import HostedIndexer, hosted

__all__ = [
    "array2string", "array_equiv", "array_repr", "array_str", "base_repr", "binary_repr", "bitwise_count", "c_",
    "diag_indices_from", "errstate", "format_float_positional", "format_float_scientific", "frexp", "frombuffer",
    "fromfile", "fromiter", "fromstring", "gcd", "genfromtxt", "get_printoptions", "geterr", "histogram2d",
    "histogramdd", "i0", "index_exp", "isfortran", "iterable", "ix_", "kaiser", "lcm", "lexsort", "loadtxt",
    "mask_indices", "mgrid", "min_scalar_type", "ndenumerate", "ndindex", "ogrid", "packbits", "poly1d", "polydiv",
    "printoptions", "r_", "ravel_multi_index", "real_if_close", "roots", "s_", "savetxt", "set_printoptions",
    "setxor1d", "seterr", "sort_complex", "spacing", "tril_indices_from", "trim_zeros", "triu_indices_from",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unpackbits",
]  # fmt: skip


@wraps(np.set_printoptions)
def _set_printoptions(*args: Any, **options: Any) -> None:  # noqa: ANN401  # what NumPy's function takes
    """NumPy looks at some options when it prints: one of those that are wrong would make no array printable."""
    with np.printoptions(*args, **options):
        str(np.zeros(1))
    np.set_printoptions(*args, **options)


array2string = hosted(np.array2string, "An array as text; `nnc.printoptions` are heard.")
array_equiv = hosted(np.array_equiv, "Whether shapes meet and all elements are equal.")
array_repr = hosted(np.array_repr, "An array as NumPy's text of it.")
array_str = hosted(np.array_str, "The elements as text.")
base_repr = hosted(np.base_repr, "An integer in a base, as text.")
binary_repr = hosted(np.binary_repr, "An integer in binary, as text.")
bitwise_count = hosted(np.bitwise_count, "How many bits of |x| are 1.")
diag_indices_from = hosted(np.diag_indices_from, "Places of the diagonal of an array.")
format_float_positional = hosted(np.format_float_positional, "A float as text without exponent.")
format_float_scientific = hosted(np.format_float_scientific, "A float as text with exponent.")
frexp = hosted(np.frexp, "m and e of x = m · 2^e, 0.5 ≤ |m| < 1.")
frombuffer = hosted(np.frombuffer, "Bytes as an array of one axis.")
fromfile = hosted(np.fromfile, "The bytes of a file as an array of one axis.")
fromiter = hosted(np.fromiter, "What an iterable gives, as an array of one axis.")
fromstring = hosted(np.fromstring, "Numbers of a text, between separators.")
gcd = hosted(np.gcd, "The greatest common divisor, element by element.")
genfromtxt = hosted(np.genfromtxt, "A table of text, with missing values.")
histogram2d = hosted(np.histogram2d, "How many pairs fall into each cell, and the edges.")
histogramdd = hosted(np.histogramdd, "How many points fall into each cell, and the edges.")
i0 = hosted(np.i0, "The modified Bessel function of order 0.")
isfortran = hosted(np.isfortran, "Whether memory is in column-major order.")
ix_ = hosted(np.ix_, "Places along each axis, for `x[nnc.ix_(rows, columns)]`.")
kaiser = hosted(np.kaiser, "The Kaiser window.")
lcm = hosted(np.lcm, "The least common multiple, element by element.")
lexsort = hosted(np.lexsort, "The order by several keys, of which the last one counts most.")
loadtxt = hosted(np.loadtxt, "A table of numbers in a text file.")
mask_indices = hosted(np.mask_indices, "Places where a function of a square matrix is not zero.")
min_scalar_type = hosted(np.min_scalar_type, "NumPy's smallest type that holds a number.")
ndenumerate = hosted(np.ndenumerate, "Pairs of places and elements, to go through.")
ndindex = hosted(np.ndindex, "The places of an array of this shape, to go through.")
packbits = hosted(np.packbits, "Truth values as bits of bytes.")
poly1d = hosted(np.poly1d, "NumPy's polynomial, which computes on the host.")
polydiv = hosted(np.polydiv, "Quotient and remainder of two polynomials.")
ravel_multi_index = hosted(np.ravel_multi_index, "Places of several axes as those of the flat array.")
real_if_close = hosted(np.real_if_close, "The real part, where the imaginary one is nearly zero.")
roots = hosted(np.roots, "The zeros of a polynomial, the highest power first.")
savetxt = hosted(np.savetxt, "Write a table of numbers as text.")
set_printoptions = hosted(_set_printoptions, "How arrays are printed from now on, NumPy's too.")
setxor1d = hosted(np.setxor1d, "What is in one of two arrays alone, sorted.")
sort_complex = hosted(np.sort_complex, "Complex numbers by real parts, then by imaginary ones.")
spacing = hosted(np.spacing, "How far the next float is.")
tril_indices_from = hosted(np.tril_indices_from, "Places of the lower triangle of an array.")
trim_zeros = hosted(np.trim_zeros, "Without the zeros at both ends.")
triu_indices_from = hosted(np.triu_indices_from, "Places of the upper triangle of an array.")
unique_all = hosted(np.unique_all, "Values, their first places, those of each element, and counts.")
unique_counts = hosted(np.unique_counts, "Values and counts.")
unique_inverse = hosted(np.unique_inverse, "Values, and the place among them of each element.")
unique_values = hosted(np.unique_values, "The different values, sorted.")
unpackbits = hosted(np.unpackbits, "The bits of bytes.")

c_ = HostedIndexer("c_", np.c_)
mgrid = HostedIndexer("mgrid", np.mgrid)
ogrid = HostedIndexer("ogrid", np.ogrid)
r_ = HostedIndexer("r_", np.r_)
