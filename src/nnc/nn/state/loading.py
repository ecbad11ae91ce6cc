"""States by path that a layer is given: what fits, what is missing, and weights in PyTorch's order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.core.values.tensor import as_array
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.variable import Variable
from nnc.errors import FormatError

Arrays = dict[str, NDArray[np.generic]]
# By path: our axes in PyTorch's order, [out, in, spatial…].
Layouts = Mapping[str, tuple[int, ...]]
# The kinds of what does not fit that are errors, unless somebody says otherwise.
EXACT = ("missing", "of another shape", "unexpected")
# What PyTorch's batch norms count, and nothing here reads.
COUNTED = ".num_batches_tracked"


def host_array(value: ArrayLike | ArrayOperand) -> NDArray[np.generic]:
    """An array of NumPy with these elements, on whatever device they lie."""
    return value.cpu().numpy() if isinstance(value, ArrayOperand) else as_array(value)


class UnfitKeys(NamedTuple):
    """Paths that arrays lack, that a layer lacks, and whose shapes differ: what `load_state_dict` has not set."""

    missing_keys: list[str]
    unexpected_keys: list[str]
    other_shapes: list[str]


def unfit_keys(known: Mapping[str, Variable], arrays: Arrays) -> UnfitKeys:
    """What does not fit; a tensor of several names is there where one of them is."""
    given = {id(known[path]) for path in known.keys() & arrays.keys()}
    missing = [path for path in known if path not in arrays and id(known[path]) not in given]
    unfit = [path for path in known.keys() & arrays.keys() if arrays[path].shape != known[path].shape]
    return UnfitKeys(sorted(missing), sorted(arrays.keys() - known.keys()), sorted(unfit))


def check_fits(unfit: UnfitKeys, refused: Collection[str], count: int) -> None:
    """FormatError for what does not fit, of the kinds that are refused."""
    named = dict(zip(EXACT, (unfit.missing_keys, unfit.other_shapes, unfit.unexpected_keys), strict=True))
    got = "; ".join(f"{kind}: {', '.join(paths)}" for kind, paths in named.items() if paths and kind in refused)
    if got:
        raise FormatError("state", got=got, need=f"the {count} tensors of this layer")


def in_our_order(arrays: Arrays, known: Mapping[str, Variable], layouts: Layouts) -> Arrays:
    """Arrays of somebody else, where those in PyTorch's order are turned; counts of batches are left out.

    FormatError where a shape is the same in both orders, and the values are not.
    """
    kept = {path: array for path, array in arrays.items() if path in known or not f".{path}".endswith(COUNTED)}
    for path, axes in layouts.items():
        array = kept.get(path)
        if array is None or array.ndim != len(axes):
            continue
        turned = array.transpose(np.argsort(axes))
        ours = known[path].shape
        if array.shape == ours == turned.shape and not np.array_equal(array, turned):
            need = "[spatial…, in, out] or [out, in, spatial…] that differ"
            fix = "nn.load_torch_state_dict(net, values) of PyTorch's, net.update(values) of ours"
            raise FormatError("state", got=f"{path} {list(ours)}, the same shape in both orders", need=need, fix=fix)
        if array.shape != ours and turned.shape == ours:
            kept[path] = turned
    return kept
