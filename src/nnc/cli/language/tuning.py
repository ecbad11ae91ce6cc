"""nnc finetune with a language model's file: what it will take, then updates, then an adapter or a model."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from nnc import language
from nnc.classes import dataclass
from nnc.cli.interrupt import Interrupts
from nnc.cli.language.model_file import LanguageFile
from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, complain, count, output, plain, table, write_json
from nnc.errors import UsageError
from nnc.nn import ModelMemory, Progress

if TYPE_CHECKING:
    from nnc.language import FineTuning

Method = Annotated[
    str, typer.Option(metavar="lora|qlora|full", help="Language models: products, the same beside 4 bits, or all.")
]
Width = Annotated[int, typer.Option("--rank", min=1, max=4096, help="Language models: the rank of products.")]
Alpha = Annotated[float | None, typer.Option(help="Language models: products times alpha / rank. Default: 2 · rank.")]
Targets = Annotated[
    list[str] | None, typer.Option("--target", metavar="PATTERN", help="Language models: layers that get a product.")
]
Accumulate = Annotated[int, typer.Option(min=1, max=1 << 16, help="Language models: batches of an update.")]
Beta = Annotated[float, typer.Option(help="Language models: of direct preference optimization.")]
Resume = Annotated[bool, typer.Option("--resume", help="Language models: go on from OUTPUT.checkpoint.safetensors.")]
AdapterFolder = Annotated[
    Path, typer.Option("--adapter", metavar="DIR", help="An adapter of nnc finetune, or of PEFT, for this model.")
]
Merged = Annotated[
    Path, typer.Option("--output", metavar="OUT", help="A .gguf file, or a folder for a folder's model.")
]


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """What `nnc finetune` was asked for; None where the usual value is meant."""

    data: Path
    target: Path | None
    method: str
    rank: int
    alpha: float | None
    targets: tuple[str, ...]
    context: int
    batch: int | None
    accumulate: int
    epochs: int | None
    rate: float | None
    beta: float
    limit: int | None
    seed: int
    resume: bool
    backend: str

    def prepared(self, model: Path) -> FineTuning:
        """The training, checked and planned."""
        place = self.target or Path(f"{model.stem}-{'tuned' if self.method == 'full' else 'adapter'}")
        try:
            return language.FineTuning(
                model,
                self.data,
                place,
                resume=self.resume,
                method=self.method,
                rank=self.rank,
                alpha=2.0 * self.rank if self.alpha is None else self.alpha,
                targets=self.targets or ("block*",),
                context=self.context,
                batch=self.batch or 1,
                accumulate=self.accumulate,
                epochs=self.epochs or 1,
                rate=self.rate,
                beta=self.beta,
                limit=self.limit,
                seed=self.seed,
                backend=self.backend,
            )
        except ImportError as error:
            fix = "pip install 'nnc[language]'"
            raise UsageError("language", got=str(error), need="the extra language", fix=fix) from None


def finetune_language(model: Path, request: TuningRequest, *, json: bool) -> int:
    """Say what it will take, train, and write what came of it, after Ctrl-C and SIGTERM too."""
    tuning = request.prepared(model)
    memory = tuning.memory()
    if not json:
        _tell_plan(tuning, memory)
    began, losses = perf_counter(), list[float]()

    def listen(progress: Progress) -> None:
        losses.append(progress.loss)
        if not json:
            done, rest = tuning.model.updates, perf_counter() - began
            complain(f"update {done}/{tuning.updates}  loss {progress.loss:.4f}  {rest:.0f} s")

    with Interrupts() as interrupts:
        tuning.train([listen], stop=interrupts.pending)
    if json:
        write_json(
            {
                "output": str(tuning.output),
                "checkpoint": str(tuning.checkpoint),
                "updates": tuning.model.updates,
                "interrupted": interrupts.signal is not None,
                "loss": losses[-1] if losses else None,
                **_bytes(tuning, memory),
            }
        )
    else:
        sys.stdout.write(plain(f"{tuning.model.updates} updates, saved as {tuning.output}") + "\n")
    if interrupts.signal is not None:
        complain(f"{interrupts.signal.name}: stopped after {tuning.model.updates} updates. Fix: go on with --resume")
        return 128 + interrupts.signal
    return 0


def _bytes(tuning: FineTuning, memory: ModelMemory) -> dict[str, Json]:
    return {
        "weight_bytes": memory.weights,
        "state_bytes": memory.optimizer_state,
        "arena_bytes": max(memory.arena, memory.step.arena),
        "process_bytes": tuning.process,
    }


def _tell_plan(tuning: FineTuning, memory: ModelMemory) -> None:
    """What will be trained on what, and the bytes that it takes, before any are allocated."""
    rows = table("Fine-tuning", "what", "number", numbers=("number",))
    options, texts = tuning.options, tuning.rows
    trained = tuning.model.parameter_count()
    for what, number in (
        ("examples", len(tuning.examples)),
        (f"rows of {tuning.context} tokens", len(texts.tokens)),
        ("tokens that are learned", int((texts.labels >= 0).sum())),
        ("examples that were cut", texts.cut),
        (f"trained parameters ({options.method})", trained),
        ("updates", tuning.updates),
    ):
        add_row(rows, what, count(number))
    for name, value in _bytes(tuning, memory).items():
        add_row(rows, f"bytes: {name.removesuffix('_bytes')}", count(value) if isinstance(value, int) else "")
    if memory.budget is not None:
        repeated = f"{memory.budget.repeated} commands run again, work × {memory.budget.work_ratio:.3f}"
        add_row(rows, "for the limit", repeated)
    output().print(rows)


def merge(model: LanguageFile, adapter: AdapterFolder, target: Merged, json: AsJson = False) -> int:
    """Write a language model with an adapter in its weights, as a file or folder of the same kind.

    nnc merge model.gguf --adapter adapter --output merged.gguf
    """
    language.merge(model, adapter, target)
    if json:
        write_json({"output": str(target)})
    else:
        sys.stdout.write(plain(f"saved as {target}") + "\n")
    return 0
