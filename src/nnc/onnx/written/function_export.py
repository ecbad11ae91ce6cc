"""What a module or a function does to arrays as an ONNX file, in PyTorch's words.

The function is recorded as in a compiled one, for the sizes of its arguments; where some are open, for others too, so
that what follows them is seen (`nnc.onnx.written.size_terms`). Nothing is computed for that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.device import CPU
from nnc.core.values.spec import Shape
from nnc.dynamic.eager import no_grad
from nnc.dynamic.transforms.recording import FunctionDraft, place_of, record
from nnc.dynamic.transforms.signatures import is_tensor, names_of, spec_of
from nnc.dynamic.tree import Tree, flatten
from nnc.errors import ArgumentError, UsageError
from nnc.nn.layers.layer import Layer
from nnc.nn.model.model import Model
from nnc.onnx.exporter import OPSET
from nnc.onnx.written.saving import ExportedGraph, write_graphs
from nnc.onnx.written.size_terms import OpenSize
from nnc.symbolic import Symbol

Axes = Mapping[str, Mapping[int, str] | Sequence[int]]
# A size of 1 would be stretched where others are not.
LEAST = 2


@checked
def export(
    model: Callable[..., Any],
    args: Tree,
    f: str | os.PathLike[str],
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Axes | None = None,
    opset_version: int = OPSET,
    external: bool = False,
) -> None:
    """Write what a module, in use and not in training, or a function does to `args` as an ONNX file, as PyTorch does.

    Inputs have the sizes of `args` (an array, or a tuple of them); `dynamic_axes={"x": {0: "batch"}}` keeps an axis of
    an input open. Names are those of parameters and `y`, `y1`, … if none are given. Weights lie in the file under
    their paths, with `external` in one beside it. UsageError where something follows an open size in another way than
    by sums of multiples, or where random numbers are drawn; BackendError lists what has no form in ONNX.

    >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    >>> nnc.onnx.export(net, nnc.zeros((1, 3)), "net.onnx", input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    >>> nnc.onnx.load("net.onnx").run({"x": np.ones((5, 3), np.float32)})["y"].shape
    (5, 2)
    """
    if opset_version != OPSET:
        fix = f"leave opset_version out, or onnx.version_converter on the file of {OPSET}"
        raise ArgumentError("export", got=f"opset_version={opset_version}", need=f"{OPSET}", fix=fix)
    if isinstance(model, Model):
        raise UsageError("export", got="a Model", need="a module or a function", fix="nnc.onnx.save(model, path)")
    leaves, structure = flatten((tuple(args) if isinstance(args, tuple | list) else (args,), {}))
    if not leaves or not all(is_tensor(leaf) for leaf in leaves):
        raise ArgumentError("export", got="arguments that are no arrays", need="arrays", fix="a lambda of the arrays")
    names = [*names_of(model, structure)]
    chosen = _chosen("input_names", input_names, [name.replace(".", "_") for name in names])
    shapes = {name: spec_of(leaf).shape for name, leaf in zip(chosen, leaves, strict=True)}
    places = _places(shapes, dynamic_axes or {})
    _check_axes(dynamic_axes or {}, chosen, output_names or ())
    with _in_use(model):
        if isinstance(model, Layer):
            with no_grad():
                model(*structure.unflatten(leaves)[0])
        drafts = [
            record(model, leaves, structure, names, {place_of(at): shape for at, shape in enumerate(each.values())})
            for each in _shapes(shapes, places)
        ]
    sources = [_graph(draft, chosen, output_names, _paths(model)) for draft in drafts]
    opened = [OpenSize(size, *held[0]) for size, held in places.items()]
    write_graphs(sources, opened, f, external=external)


def _chosen(subject: str, given: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Names that are given for some, all apart, and usual ones for the rest."""
    taken = [*(given or ())]
    result = [*taken, *names[len(taken) :]]
    if len(result) != len(names) or len(set(result)) != len(result):
        need = f"{len(names)} names that are apart"
        raise ArgumentError("export", got=f"{subject}={result}", need=need, origin=caller_origin())
    return result


def _check_axes(axes: Axes, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Names that nothing has would be left out in silence."""
    known = [*inputs, *(outputs or ["y"])]
    # Without names outputs are y, y1, …
    unknown = [name for name in axes if name not in known and (outputs or not name.startswith("y"))]
    if unknown:
        need = f"one of {', '.join(known)}"
        raise ArgumentError("export", got=f"dynamic_axes of {unknown[0]!r}", need=need, origin=caller_origin())


def _places(shapes: Mapping[str, Shape], axes: Axes) -> dict[str, list[tuple[str, int]]]:
    """Of each open size the inputs and axes that have it; those of outputs follow."""
    places: dict[str, list[tuple[str, int]]] = {}
    for name, shape in shapes.items():
        given, rank = axes.get(name, {}), len(shape)
        named = given if isinstance(given, Mapping) else {axis: f"{name}_{axis}" for axis in given}
        for axis, size in named.items():
            if not -rank <= axis < rank:
                need = f"an axis of {name!r}, which has {rank}"
                raise ArgumentError("export", got=f"dynamic_axes with axis {axis}", need=need, origin=caller_origin())
            places.setdefault(size, []).append((name, axis % rank))
    return places


def _shapes(shapes: Mapping[str, Shape], places: Mapping[str, Sequence[tuple[str, int]]]) -> Iterator[dict[str, Shape]]:
    """Of each recording the shapes of all inputs: the base, each open size larger, and all of them larger still."""
    sizes = {size: max(LEAST, *[shapes[name][axis] for name, axis in held]) for size, held in places.items()}
    every = [sizes, *[sizes | {size: sizes[size] + 1} for size in sizes]]
    if sizes:
        every.append({size: count + 2 for size, count in sizes.items()})
    for chosen in every:
        made = {name: [*shape] for name, shape in shapes.items()}
        for size, held in places.items():
            for name, axis in held:
                made[name][axis] = chosen[size]
        yield {name: tuple(shape) for name, shape in made.items()}


def _graph(
    draft: FunctionDraft, inputs: Sequence[str], outputs: Sequence[str] | None, paths: Mapping[int, str]
) -> ExportedGraph:
    """The recording as a graph with names."""
    ports, rest = draft.inputs[: len(inputs)], draft.inputs[len(inputs) :]
    if len(rest) > len(draft.captured):
        got, fix = "a function that draws random numbers", "draw outside, and give them as an argument"
        raise UsageError("export", got=got, need="one that gives the same each time", fix=fix, origin=caller_origin())
    if not draft.results or not all(isinstance(result, Symbol) for result in draft.results):
        raise UsageError("export", got="results that do not follow the arguments", need="some that do, each of them")
    tensors = {
        paths.get(id(variable), f"captured{place}"): (symbol, variable.tensor.to(CPU).numpy())
        for place, (symbol, variable) in enumerate(zip(rest, draft.captured, strict=True))
    }
    tensors |= {
        f"constant{place}": (symbol, tensor.to(CPU).numpy())
        for place, (symbol, tensor) in enumerate(draft.constants.items())
    }
    names = _chosen("output_names", outputs, [f"y{place or ''}" for place in range(len(draft.results))])
    return ExportedGraph(
        draft.graph, dict(zip(inputs, ports, strict=True)), dict(zip(names, draft.results, strict=True)), tensors
    )


def _paths(model: object) -> dict[int, str]:
    """Parameters and buffers of a module by identity."""
    if not isinstance(model, Layer):
        return {}
    return {id(variable): path for path, variable in (*model.named_parameters(), *model.named_buffers())}


@contextmanager
def _in_use(model: object) -> Iterator[None]:
    """A module and those below it out of training, as they were behind it."""
    layers = model.modules() if isinstance(model, Layer) else []
    modes = [(layer, layer.training) for layer in layers]
    try:
        for layer, _ in modes:
            layer.own.training = False
        yield
    finally:
        for layer, mode in modes:
            layer.own.training = mode
