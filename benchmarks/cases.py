"""What `models.py` measures: training steps and predictions, ours and what peers make theirs of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import twins
from peers import RATE, Offer, Run
from twins import Array

import onnx
from nnc import nn
from nnc.core.values.dtype import BF16, dtype_of
from nnc.core.values.tensor import Tensor
from nnc.nn.steps.model_step import ModelStep
from nnc.nn.zoo import NETWORKS, bert_base, gpt2_small, gpt_6x384, resnet20
from nnc.onnx import load
from nnc.symbolic import SymbolicGraph
from nnc.symbolic.compiler.repeat.program import work_of

IMAGE = (224, 224, 3)
TEXT, PROMPT = 128, 256
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@dataclass(frozen=True, slots=True)
class Prepared:
    """One step of ours, and its floating-point operations by the rules of `nnc.ops.work`."""

    run: Run
    operations: int


@dataclass(frozen=True, slots=True)
class Case:
    """A name, what makes our step, and what peers make theirs of."""

    name: str
    ours: Callable[[], Prepared]
    offer: Offer


def operations(graph: SymbolicGraph) -> int:
    return sum(work_of(graph, record) for _, record in graph.execs.items())


def prepared(step: ModelStep, run: Run) -> Prepared:
    return Prepared(run, operations(step.compiled.planned.graph))


def mlp() -> nn.Layer:
    return nn.Sequential(first=nn.Dense(512), a=nn.ReLU(), second=nn.Dense(512), b=nn.ReLU(), third=nn.Dense(10))


def lstm() -> nn.Layer:
    return nn.Sequential(memory=nn.LSTM(256, layers=2), classes=nn.Dense(10))


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def labels(classes: int, *shape: int) -> Array:
    return np.random.default_rng(1).integers(0, classes, shape).astype(np.int32)


def model_of(layer: nn.Layer, x: Array, half: bool) -> nn.Model:
    optimizer, precision = nn.SGD(RATE, momentum=0.0), BF16 if half else None
    return nn.Model(layer, x.shape[1:], optimizer=optimizer, input_dtype=dtype_of(x.dtype), precision=precision)


def our_training(layer: Callable[[], nn.Layer], x: Array, target: Array, half: bool) -> Prepared:
    step = model_of(layer(), x, half).training_step(len(x))
    # A planned step may reuse its inputs' memory, so they are written before each run.
    return prepared(step, lambda: step.run(x, target))


def our_prediction(layer: Callable[[], nn.Layer], x: Array, half: bool) -> Prepared:
    # Peers that read a file work on weights once, too.
    step = model_of(layer(), x, half).freeze(len(x))
    return prepared(step, lambda: step.run(x))


def our_generation(x: Array, half: bool) -> Prepared:
    """The scores of what follows tokens[batch, steps], the last of which stand at PROMPT, and the caches."""
    batch, steps = x.shape
    model = nn.Model(gpt2_small(), (1024,), input_dtype=dtype_of(x.dtype), precision=BF16 if half else None)
    caches: dict[str, Tensor] = {}
    step = model.freeze_generation(batch).generation_step(batch, PROMPT, steps, caches)
    positions = np.broadcast_to(np.arange(PROMPT - steps, PROMPT), x.shape)
    return prepared(step, lambda: step.run((x, positions, np.full(batch, steps - 1))))


def our_file(path: Path, x: Array) -> Prepared:
    model = load(path)
    feeds = {next(iter(model.placeholders())): np.ascontiguousarray(np.moveaxis(x, -1, 1))}
    return Prepared(lambda: model.run(feeds), operations(model.graph()[0]))


def trainings(half: bool = False) -> Iterator[Case]:
    rows: tuple[tuple[str, Callable[[], nn.Layer], Offer], ...] = (
        ("mlp b64", mlp, Offer(twins.mlp, numbers(64, 784), labels(10, 64), twins.jax_mlp_training)),
        ("resnet20 b128", resnet20, Offer(twins.resnet20, numbers(128, 32, 32, 3), labels(10, 128))),
        (
            "lstm 2x256 b32 t64",
            lstm,
            Offer(twins.lstm, numbers(32, 64, 256), labels(10, 32, 64), twins.jax_lstm_training),
        ),
        (
            "gpt_6x384 b8 t256",
            gpt_6x384,
            Offer(twins.gpt, labels(65, 8, 256), labels(65, 8, 256), twins.jax_gpt_training),
        ),
        ("unet b8 128x128", NETWORKS["unet"].build, Offer(twins.unet, numbers(8, 128, 128, 3), labels(2, 8, 128, 128))),
        (f"bert_base b8 t{TEXT}", bert_base, Offer(twins.bert, labels(30_522, 8, TEXT), labels(768, 8))),
    )
    for name, layer, offer in rows:
        assert offer.target is not None
        ours = partial(our_training, layer, offer.x, offer.target, half)
        yield Case(f"train {name}", ours, replace(offer, half=half))


def predictions(half: bool = False) -> Iterator[Case]:
    """Networks by name with torchvision's names, texts, and files of the onnx wheel that both sides run as they are."""
    images = (
        ("resnet50", "resnet50"),
        ("densenet121", "densenet121"),
        ("squeezenet", "squeezenet1_1"),
        ("mobilenet_v2", "mobilenet_v2"),
        ("vgg19", "vgg19"),
        ("inception_v1", "googlenet"),
        ("shufflenet_v2", "shufflenet_v2_x1_0"),
        ("efficientnet_b0", "efficientnet_b0"),
        ("vit_b_16", "vit_b_16"),
    )
    for name, twin in images:
        for batch in (1, 8):
            x, layer = numbers(batch, *IMAGE), NETWORKS[name].build
            offer = Offer(twins.vision(twin), x, file=f"{twin}-{batch}", half=half)
            yield Case(f"predict {name} b{batch}", partial(our_prediction, layer, x, half), offer)
    for batch in (1, 8):
        x = labels(30_522, batch, TEXT)
        offer = Offer(twins.bert, x, file=f"bert_base-{batch}", half=half)
        yield Case(f"predict bert_base b{batch} t{TEXT}", partial(our_prediction, bert_base, x, half), offer)
    for batch in (1, 8):
        for name, steps in (("prefill", PROMPT), ("decode", 1)):
            x = labels(50_257, batch, steps)
            twin = partial(twins.gpt2, batch=batch, past=PROMPT - steps)
            offer = Offer(twin, x, file=f"gpt2_{name}-{batch}", half=half)
            yield Case(f"predict gpt2 {name} b{batch} t{PROMPT}", partial(our_generation, x, half), offer)
    for name in () if half else ("inception_v1", "inception_v2", "shufflenet"):
        x, path = numbers(1, *IMAGE), LIGHT / f"light_{name}.onnx"
        yield Case(f"predict light_{name}.onnx b1", partial(our_file, path, x), Offer(None, x, file=str(path)))
