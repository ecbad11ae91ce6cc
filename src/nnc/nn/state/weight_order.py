"""Which parameters lie [spatial…, in, out], as of `nn.Dense` and `nn.Convolution`; all others as PyTorch's."""

from __future__ import annotations

from weakref import WeakValueDictionary

from nnc.dynamic.variable import Variable

_IN_FIRST: WeakValueDictionary[int, Variable] = WeakValueDictionary()


def in_first(parameter: Variable) -> Variable:
    """The parameter, of which is remembered that its last axes are [in, out]."""
    _IN_FIRST[id(parameter)] = parameter
    return parameter


def is_in_first(parameter: Variable) -> bool:
    """Whether its last axes are [in, out], and not its first ones [out, in]."""
    return _IN_FIRST.get(id(parameter.owner)) is parameter.owner
