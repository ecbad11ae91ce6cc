"""Layers made of layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, overload

from nnc.arguments import checked, shown
from nnc.errors import ArgumentError, AttributeValueError, IndexRangeError
from nnc.nn.layers.layer import Input, Layer, Scope, T
from nnc.nn.state.layer_state import LayerState
from nnc.ops import add, concatenate, sum_of

__all__ = ["Concatenate", "Parallel", "Residual", "Sequential"]


class LayerParts(Layer):
    """Named layers. Names come from keywords, or are positions: `0`, `1`, …. A list or a dictionary is taken too."""

    __slots__ = ("parts",)
    stands_by_class: ClassVar[bool] = False
    replays: ClassVar[bool] = True

    def __init__(self, *layers: Layer | Sequence[Layer] | Mapping[str, Layer], **named: Layer) -> None:
        only: Any = layers[0] if len(layers) == 1 else layers
        if isinstance(only, Mapping):
            only, named = (), {**{str(name): layer for name, layer in only.items()}, **named}
        listed = only if isinstance(only, list | tuple) else layers
        numbered = ((str(position), layer) for position, layer in enumerate(listed))
        parts: list[tuple[str, Layer]] = []
        for name, layer in (*numbered, *named.items()):
            if not isinstance(layer, Layer):
                raise _no_layer(type(self).__name__, name, layer)
            parts.append((name, layer))
        self.parts: tuple[tuple[str, Layer], ...] = tuple(parts)

    def replaced(self, path: str, layer: Layer) -> Self:
        """The same with another layer at `path`, such as a new head: `net.replaced("head", Dense(3))`.

        >>> from nnc.nn.layers import Dense
        >>> Sequential(body=Sequential(Dense(2)), head=Dense(9)).replaced("body.0", Dense(3))
        Sequential(body=Sequential(0=Dense(units=3, bias=True)), head=Dense(units=9, bias=True))
        """
        name, _, rest = path.partition(".")
        parts = dict(self.parts)
        if name not in parts or (rest and not isinstance(parts[name], LayerParts)):
            raise ArgumentError("replaced", got=f"path={path!r}", need=f"a path of one of {', '.join(parts)}")
        inner = parts[name]
        parts[name] = inner.replaced(rest, layer) if rest and isinstance(inner, LayerParts) else layer
        return self._of(parts)

    def _of(self, parts: Mapping[str, Layer]) -> Self:
        """The same of other parts."""
        made = type(self).__new__(type(self))
        LayerParts.__init__(made, **parts)
        return made

    @overload
    def __getitem__(self, position: int | str) -> Layer: ...
    @overload
    def __getitem__(self, position: slice) -> Self: ...
    def __getitem__(self, position: int | str | slice) -> Layer | Self:
        """The part at a position or of a name; of a slice the same of these parts, under their names.

        >>> from nnc.nn.layers import Dense
        >>> Sequential(Dense(9), Dense(5), head=Dense(2))[1:]
        Sequential(1=Dense(units=5, bias=True), head=Dense(units=2, bias=True))
        """
        if isinstance(position, slice):
            return self._of(dict(self.parts[position]))
        return dict(self.parts)[self._name(position)]

    def _name(self, position: int | str) -> str:
        """Of the part at a position or of a name."""
        if isinstance(position, str):
            if position in dict(self.parts):
                return position
        elif hasattr(position, "__index__") and -len(self) <= position < len(self):
            return self.parts[position][0]
        need = f"a position below {len(self)}, or one of {', '.join(name for name, _ in self.parts)}"
        raise IndexRangeError(type(self).__name__, got=repr(position), need=need if self.parts else "a layer in it")

    def __setitem__(self, position: int | str, layer: Layer) -> None:
        """Another layer in the place of this part, which an optimizer made before does not know."""
        name = self._name(position)
        if not isinstance(layer, Layer):
            raise _no_layer(type(self).__name__, name, layer)
        self._set_parts({**dict(self.parts), name: layer})

    def __setattr__(self, name: str, value: object) -> None:
        if name.isdecimal() or (name != "parts" and name in dict(getattr(self, "parts", ()))):
            # As PyTorch's programs replace children by their names: `setattr(net, "0", layer)`.
            self[name] = value  # type: ignore[assignment]  # which says what is no layer
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # a part
        parts = {} if name == "parts" else dict(self.parts)
        return parts[name] if name in parts else super().__getattr__(name)  # type: ignore[misc]  # of `Answering`

    def append(self, layer: Layer) -> Self:
        """One more part at the end, named by its position."""
        name = str(len(self))
        if not isinstance(layer, Layer) or name in dict(self.parts):
            raise _no_layer(type(self).__name__, name, layer)
        self._set_parts({**dict(self.parts), name: layer})
        return self

    @checked
    def extend(self, layers: Iterable[Layer]) -> Self:
        """Several more parts at the end."""
        for layer in layers:
            self.append(layer)
        return self

    @checked
    def insert(self, index: int, layer: Layer) -> Self:
        """One more part in front of the one at a position; parts that are named by positions are numbered anew."""
        parts = list(self.parts)
        parts.insert(index, (str(len(parts)), layer))
        self._set_parts(_numbered(parts))
        return self

    @checked
    def pop(self, position: int | str) -> Layer:
        """Take a part out; parts that are named by positions are numbered anew."""
        name = self._name(position)
        taken = dict(self.parts)[name]
        self._set_parts(_numbered([(other, layer) for other, layer in self.parts if other != name]))
        return taken

    @checked
    def add_module(self, name: str, module: Layer) -> None:
        """One more part at the end, or another one in the place of the part of this name."""
        self._set_parts({**dict(self.parts), name: module})

    def _set_parts(self, parts: Mapping[str, Layer]) -> None:
        self.parts = tuple(parts.items())
        self.own.changes += 1

    def __iter__(self) -> Iterator[Layer]:
        return (layer for _, layer in self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def replay_options(self) -> tuple[object, ...]:
        """The parts."""
        return (self.parts,)

    def named_children(self) -> list[tuple[str, LayerState]]:
        """The parts with their names."""
        return list(self.parts)

    def _branches(self, scope: Scope[T], x: T) -> list[T]:
        """Each part applied to `x`; AttributeValueError when there is none."""
        if not self.parts:
            raise AttributeValueError(type(self).__name__, got="no layers", need="at least one")
        return [layer.build(scope.inside(name), x) for name, layer in self.parts]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(" + ", ".join(f"{name}={layer!r}" for name, layer in self.parts) + ")"


def _numbered(parts: Sequence[tuple[str, Layer]]) -> dict[str, Layer]:
    """Parts whose names are numbers by where they stand."""
    return {str(place) if name.isdecimal() else name: layer for place, (name, layer) in enumerate(parts)}


class Sequential(LayerParts):
    """Layers one after another. Names come from keywords, or are positions: `0`, `1`, …

    >>> from nnc.nn.layers import Dense, ReLU
    >>> [name for name, _ in Sequential(Dense(8), ReLU(), head=Dense(2)).parts]
    ['0', '1', 'head']
    """

    __slots__ = ()

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply all layers in order."""
        for name, layer in self.parts:
            x = layer.build(scope.inside(name), x)
        return x


class Parallel(LayerParts):
    """y = sum of part(x) over the parts.

    >>> nn.Parallel(nn.Dense(3), nn.Identity())(nnc.ones((2, 3))).shape
    (2, 3)
    """

    __slots__ = ()

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply all layers to `x` and add up."""
        return sum_of(*self._branches(scope, x))


class Concatenate(LayerParts):
    """y = part(x) for each part, side by side on the last axis.

    >>> from nnc.nn.layers import Dense, Identity
    >>> Concatenate(Identity(), new=Dense(8))
    Concatenate(0=Identity(), new=Dense(units=8, bias=True))
    """

    __slots__ = ()

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply all layers to `x` and put the results side by side."""
        return concatenate(self._branches(scope, x), -1)


class Residual(LayerParts):
    """y = body(x) + shortcut(x), where the shortcut is `x` itself unless given (He et al. 2016).

    >>> nn.Residual(nn.Dense(3))(nnc.ones((2, 3))).shape
    (2, 3)
    """

    __slots__ = ()

    def __init__(self, body: Layer, shortcut: Layer | None = None) -> None:
        super().__init__(body=body, **({} if shortcut is None else {"shortcut": shortcut}))

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply the body and the shortcut and add them."""
        body, *shortcut = self._branches(scope, x)
        return add(body, shortcut[0] if shortcut else x)


def _no_layer(subject: str, name: str, value: object) -> ArgumentError:
    fix = f"make one of it: {value.__name__}(…)" if isinstance(value, type) else ""
    if isinstance(value, Input):
        fix = f"leave it out: nn.Model(nn.{subject}(…), {value.shape})"
    return ArgumentError(subject, got=f"{name}={shown(value)}", need="layers", fix=fix)
