"""Variables: operands that hold a tensor now, and remember the symbol that stands for it in the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nnc.arguments import explained, frequent, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import F32, F64
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.storage import WatchedMemory
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import FLOAT_RULES, ArrayOperand
from nnc.dynamic.arrays.promotion import ORDER
from nnc.dynamic.hooks.hooked_values import HookedValue, LeafHooks
from nnc.dynamic.record import NUMBERS, Place
from nnc.errors import ArgumentError, DTypeError, ShapeError, UsageError
from nnc.graph.screen import fitted, preformatted
from nnc.ops.operand import Operand
from nnc.symbolic.records import TensorKey

Elements: TypeAlias = NDArray[np.generic] | Tensor
Reduced: TypeAlias = tuple[Callable[[Elements], "Variable"], tuple[Elements]]


class Recorder(Protocol):
    """What a variable needs of its dynamic graph."""

    def execute(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run the command now and record it."""

    def renew(self, old: Variable, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run a command whose first output takes the place of `old`."""

    def view(self, of: Variable, spec: TensorSpec, offset: int, strides: Shape) -> Variable:
        """A variable over a part of the same memory."""

    def copied(self, variable: Variable) -> Variable:
        """A leaf or a constant like this one, in memory of its own."""

    def reduced(self, variable: Variable) -> Reduced:
        """What pickle keeps of a leaf or a constant: the function that restores it, and its elements."""

    def twin(self, variable: Variable) -> Variable:
        """Another handle of the same value."""

    @property
    def recording(self) -> bool:
        """Whether what is computed now is recorded."""

    def is_leaf(self, variable: Variable) -> bool:
        """True for a recorded variable that nothing computed."""

    def key_of(self, variable: Variable) -> TensorKey | None:
        """The symbol of a variable in the record."""

    def hold(self, variable: Variable) -> None:
        """Keep what leads to a variable that is recorded from now on."""

    def constant(self, value: ArrayLike | Tensor, *, device: Device | None = None) -> Variable:
        """A value that is not recorded."""

    def detach(self, variable: Variable) -> Variable:
        """The same memory as a constant."""

    def accumulate(self, output: Variable) -> None:
        """Add the gradient of a scalar to those of the leaves that led to it."""

    def hooks_of(self, variable: Variable) -> list[Callable[[Variable], Variable | None]]:
        """What the gradient of a value that was computed goes through."""

    def retain(self, variable: Variable) -> None:
        """Let a value that was computed have its gradient."""

    def train(self, variable: Variable, wanted: bool) -> None:
        """Let a constant be a leaf, or a leaf a constant."""

    def settle(self, pairs: Iterable[tuple[Variable, Tensor]]) -> None:
        """Let leaves and constants hold other tensors."""

    def gradients_of_trace(self) -> dict[int, Any] | None:
        """In a function that is compiled, the gradients of variables so far, by identity."""


@explained
class Variable(HookedValue, ArrayOperand):
    """An eager value that never changes. `place` is where the record has it, None for constants and under `no_grad`.

    A leaf or a constant is copied and pickled as one; what is unpickled is of the default graph.
    """

    __slots__ = ("__weakref__", "_grad", "_heard", "_of", "_same_shapes", "graph", "place", "root", "tensor")
    _grad: ArrayOperand | None
    # Of a leaf: what its gradient goes through, and what is called when `grad` has it.
    _heard: LeafHooks
    # The leaf that `detach` and `data` gave this for: it holds what this is given. None for what was computed.
    _of: Variable | None
    # Of what `nnc.equal` gave, which PyTorch's programs take for one truth value: whether shapes were the same.
    _same_shapes: bool

    @frequent
    def __init__(self, graph: Recorder, tensor: Tensor, place: Place | None, root: Tensor | None = None) -> None:
        self.graph = graph
        self.tensor = tensor
        self.root = tensor if root is None else root
        self.place = place

    @property
    def key(self) -> TensorKey | None:
        """Its symbol in the record, which is brought up to date; None where there is none."""
        return self.graph.key_of(self)

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""
        return self.tensor.spec

    @property
    def strides(self) -> Shape:
        """Strides in elements over the root's memory."""
        return self.tensor.strides

    @property
    def offset(self) -> int:
        """Elements between the root's first element and this variable's."""
        return (self.tensor.offset - self.root.offset) // self.spec.dtype.itemsize

    @frequent
    def apply(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run the command now, unless it is for another world: a traced operand among the inputs takes it there."""
        traced: Variable | None = None
        try:
            for other in inputs:
                if type(other) is not Variable and other is not None and isinstance(other, ArrayOperand):
                    traced = other
                    break
        except TypeError:
            raise ArgumentError("apply", got=f"inputs={shown(inputs)}", need="several operands") from None
        return self.graph.execute(command, inputs) if traced is None else traced.apply(command, inputs)

    def _meet(
        self,
        rule: Callable[[Any, Any], Any],
        of_number: Callable[[Any, Any], Any],
        other: object,
        swapped: bool = False,
    ) -> Self:
        """As all operands do it; two eager values of f32 or f64 go straight to their command."""
        if type(other) is Variable:
            dtype = self.tensor.spec.dtype
            if dtype is other.tensor.spec.dtype and (dtype is F32 or dtype is F64) and rule in FLOAT_RULES:
                pair = (other, self) if swapped else (self, other)
                return pair[0].graph.execute(FLOAT_RULES[rule].command, pair)[0]  # type: ignore[return-value]  # the class is final
        return super()._meet(rule, of_number, other, swapped)

    @frequent
    def renewed(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run a command that renews this variable, without recording it."""
        return self.graph.renew(self, command, inputs)

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Variable:
        """A view of the same memory."""
        return self.graph.view(self, spec, offset, strides)

    def lift(self, value: object) -> Self | None:
        """An array as a constant beside this variable, on its device."""
        if type(value) is type(self):
            return value
        if isinstance(value, Operand):
            return None if isinstance(value, ArrayOperand) and not isinstance(value, Variable) else value  # type: ignore[return-value]  # a symbol: `apply` says what is wrong with it
        if isinstance(value, Tensor) or hasattr(value, "__array__"):
            return self.graph.constant(value, device=self.tensor.spec.device)  # type: ignore[return-value]  # the class is final
        return None

    @property
    def requires_grad(self) -> bool:
        """Whether it is recorded, so that gradients can be asked for."""
        return self.place is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value is not self.requires_grad:
            self.graph.train(self, value)

    @property
    def is_leaf(self) -> bool:
        """Whether it was not computed from what is recorded: gradients end there."""
        return self.place is None or self.graph.is_leaf(self)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad`, and give the variable back."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self) -> ArrayOperand | None:
        """What `backward` calls have added up since it was last set to None; of a leaf alone."""
        tracing = self.graph.gradients_of_trace()
        return getattr(self, "_grad", None) if tracing is None else tracing.get(id(self))

    @grad.setter
    def grad(self, value: ArrayOperand | None) -> None:
        tracing = self.graph.gradients_of_trace()
        if tracing is None:
            self._grad = value
        elif value is None:
            tracing.pop(id(self), None)
        else:
            tracing[id(self)] = value

    def backward(self, gradient: ArrayOperand | None = None, retain_graph: bool | None = None) -> None:
        """Add the gradient of this scalar to `grad` of each leaf that led to it, as PyTorch does.

        Of an array that of the sum of `gradient` times its elements. Records stay, whatever `retain_graph` says.
        """
        if gradient is not None:
            gradient = self.graph.constant(gradient) if not isinstance(gradient, ArrayOperand) else gradient
            (self * gradient.detach()).sum().backward()
            return
        if self.spec.elements != 1:
            got, fix = str(self.spec), "sum() or mean() it, or backward(gradient)"
            raise ShapeError("backward", got=got, need="a scalar", fix=fix, origin=caller_origin())
        self.graph.accumulate(self)

    def become(self, new: Variable) -> None:
        """Hold another value from now on, as the leaf or the constant that this is; what was computed stays."""
        self.graph.settle(((self, new.tensor),))

    def __iadd__(self, other: object) -> Self:
        return self._in_place("+=", self + other)

    def __isub__(self, other: object) -> Self:
        return self._in_place("-=", self - other)

    def __imul__(self, other: object) -> Self:
        return self._in_place("*=", self * other)

    def __itruediv__(self, other: object) -> Self:
        return self._in_place("/=", self / other)

    def _in_place(self, subject: str, new: Self) -> Self:
        """Under `no_grad` a leaf holds the new value, as in PyTorch, so that its module has it; else a new value."""
        if type(new) is not type(self):
            return new
        if self._is_data():
            return self._settled(subject, new)
        if not self.graph.is_leaf(self):
            if not self.is_view and new.spec == self.spec and getattr(self, "_of", self) is self:
                self._assign(new)
                return self
            return new
        if self.graph.recording:
            return new
        if new.spec != self.spec:
            raise ShapeError(subject, got=str(new.spec), need=f"{self.spec}, as the leaf is", origin=caller_origin())
        self.become(new)
        return self

    def _settled(self, subject: str, new: Self) -> Self:
        if type(new) is not type(self):
            return super()._settled(subject, new)
        if new.spec.shape != self.spec.shape:
            raise ShapeError(subject, got=str(new.spec), need=f"{self.spec}, as it is", origin=caller_origin())
        if ORDER[new.spec.dtype.kind] > ORDER[self.spec.dtype.kind]:
            fix = f"x = x.astype(nnc.{new.spec.dtype})"
            raise DTypeError(subject, got=str(new.spec), need=f"{self.spec}, as it is", fix=fix, origin=caller_origin())
        new = new.astype(self.spec.dtype)
        if self.graph.is_leaf(self):
            if self.graph.recording:
                got, fix = f"a leaf that gradients are asked for, {self.spec}", f"with nnc.no_grad(): w.{subject}(…)"
                raise UsageError(subject, got=got, need="no_grad()", fix=fix, origin=caller_origin())
            self.become(new)
        elif self.is_view:
            got, fix = f"a view, {self.spec}, whose array would not change", "x = x.at[index].add(y), x[index] = value"
            raise UsageError(subject, got=got, need="a whole array", fix=fix, origin=caller_origin())
        else:
            self._assign(new)
        return self

    @property
    def owner(self) -> Variable:
        """What holds that which this is given: the leaf whose `data` this is, or itself."""
        leaf = getattr(self, "_of", self)
        return self if leaf is None else leaf

    def _is_data(self) -> bool:
        return self.owner is not self

    @property
    def is_view(self) -> bool:
        """Whether it is a part of another array, or all of it in another order or shape, over the same memory."""
        return self.tensor is not self.root

    @property
    def data(self) -> Variable:
        """The value without its gradient. What it is given in place, this variable holds from then on, as in PyTorch.

        >>> w = nnc.variable([1.0, 2.0])
        >>> w.data.mul_(2).tolist(), w.tolist(), w.requires_grad
        ([2.0, 4.0], [2.0, 4.0], True)
        """
        return self if self.place is None else self.detach()

    @data.setter
    def data(self, new: Variable) -> None:
        if new.spec != self.spec:
            raise ShapeError("data", got=str(new.spec), need=str(self.spec), origin=caller_origin())
        if self.graph.is_leaf(self):
            self.become(new)
        else:
            self._assign(new.detach())

    def detach(self) -> Variable:
        """The same memory as a constant: no gradient flows through it. What that of a leaf is given, the leaf holds."""
        constant = self.graph.detach(self)
        if self.place is not None:
            constant._of = self if self.graph.is_leaf(self) else None
        return constant

    def snapshot(self) -> Variable:
        """A copy as a constant. What it is given in place, this leaf or constant has too, unless it changed since."""
        copy = self.graph.detach(self)
        copy.tensor = copy.root = self.tensor.clone()
        copy._of = self
        return copy

    def twin(self) -> Self:
        """Another handle of the same value."""
        return self.graph.twin(self)  # type: ignore[return-value]  # the class is final

    def _assign(self, new: Self) -> None:
        if type(new) is not type(self):
            got = f"what is known only under vmap() or in a compiled function, {new.spec}"
            raise UsageError("x[index] = value", got=got, need="an eager value", fix="x = x.at[index].set(value)")
        if self.graph.is_leaf(self):
            need = "a value that no gradient is asked for"
            raise UsageError(
                "x[index] = value", got=f"a variable, {self.spec}", need=need, fix="y = x.at[index].set(value)"
            )
        leaf = getattr(self, "_of", self)
        if leaf is None:
            got, fix = f"what detach() or data gave of a computed value, {self.spec}", "y = x.detach().copy()"
            raise UsageError("x[index] = value", got=got, need="a value of its own", fix=fix)
        if leaf is not self:
            self._check_unchanged(leaf)
            leaf.become(new)
        self.place, self.tensor, self.root = new.place, new.tensor, new.root
        if self.place is not None:
            self.graph.hold(self)
        else:
            # Computed for this variable alone: what it is a part of has no other name.
            self.root = self.tensor

    def _check_unchanged(self, leaf: Variable) -> None:
        """UsageError where the leaf holds other bytes than this, which was taken of it before."""
        same = leaf.tensor.storage is self.tensor.storage and leaf.tensor.offset == self.tensor.offset
        if not same and leaf.tensor.to(CPU).copied().tobytes() != self.tensor.to(CPU).copied().tobytes():
            got, fix = f"what was taken of a {leaf.spec} that changed since", "take it anew: net.state_dict(), w.data"
            raise UsageError("in-place change", got=got, need="values as they are now", fix=fix, origin=caller_origin())

    def numpy(self) -> NDArray[np.generic]:
        """The elements as a NumPy array over the same memory, to be read only: a gradient may still need them.

        DeviceError for elements of another device: `x.cpu().numpy()` copies them.
        """
        array = self.tensor.numpy().view()
        array.flags.writeable = False
        return array

    def item(self) -> Any:  # noqa: ANN401  # float, int, bool or complex
        """The only element, as a Python number."""
        if self.spec.elements != 1:
            fix = "x.all() or x.any(); nnc.array_equal(x, y)" if self.spec.dtype.kind == "bool" else ""
            raise ShapeError("item", got=str(self.spec), need="one element", fix=fix, origin=caller_origin())
        tensor = self.tensor
        return (tensor if tensor.spec.device.is_host else tensor.to(CPU)).numpy().item()

    def tolist(self) -> object:
        """The elements as Python's numbers, in nested lists."""
        return self.tensor.to(CPU).numpy().tolist()

    def __copy__(self) -> Variable:
        return self.graph.copied(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Variable:
        return self.graph.copied(self)

    def __reduce__(self) -> Reduced:
        return self.graph.reduced(self)

    def is_true_where_all_are(self, same_shapes: bool) -> None:
        """As a truth value this is whether all elements are true, and the shapes that were compared the same."""
        self._same_shapes = same_shapes

    def __bool__(self) -> bool:
        same = getattr(self, "_same_shapes", None)
        return bool(self.item() if same is None else same and self.tensor.to(CPU).numpy().all())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.spec.dtype.kind not in ("int", "uint"):
            raise DTypeError("index", got=str(self.spec), need="an integer", origin=caller_origin())
        return int(self.item())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: object) -> object:
        self.tensor.check_file()
        # Who takes it may write there; what was read before is what is there now.
        storage = self.tensor.storage
        if storage.watch is None and storage.device.is_host:
            storage.watch = WatchedMemory()
            storage.watch.read(storage.bytes, next(NUMBERS))
        return self.tensor.__dlpack__(**options)  # type: ignore[arg-type]  # handed on as they come

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        kind = "constant" if self.place is None else "recorded"
        return fitted(f"Variable({self.spec}, {kind})\n{self.tensor.to(CPU).numpy()}")

    def _repr_html_(self) -> str:
        return preformatted(repr(self))
