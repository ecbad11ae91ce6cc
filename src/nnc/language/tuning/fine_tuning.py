"""Fine-tuning: what it will take, updates, checkpoints, and the adapter or model that comes of it.

tuning = nnc.language.FineTuning("model.gguf", "chats.jsonl", "adapter", method="qlora", limit=600_000_000)
print(f"{tuning.process:,} bytes")
tuning.train()
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked, explained
from nnc.core.precautions.replacement import check_writable
from nnc.core.precautions.resident import resident_bytes
from nnc.core.values.device import CPU
from nnc.core.values.dtype import I32
from nnc.errors import FormatError, InterruptedUpdateError, MemoryLimitError, UsageError
from nnc.language.architectures import open_files
from nnc.language.architectures.low_rank import LowRank, Products
from nnc.language.text.tokenizer import text_tokenizer
from nnc.language.tuning.adapters import write_adapter
from nnc.language.tuning.merging import check_output, write_merged, write_trained
from nnc.language.tuning.row_packing import PackedSequences, PairedAnswers, packed_rows, paired_answers
from nnc.language.tuning.rows_network import AnswerLikelihoods, PairedRows
from nnc.language.tuning.training_text import Example, Preference, read_examples
from nnc.language.tuning.tuning_options import USUAL_BLOCKS, USUAL_CONTEXT, TuningOptions
from nnc.nn.data import Batches, Examples
from nnc.nn.files.checkpoint import load_checkpoint, position_of, read_notes, save_checkpoint
from nnc.nn.layers.layer import Input, Layer
from nnc.nn.layers.lora import LoRA
from nnc.nn.model.model import Model
from nnc.nn.optimization.token_losses import DirectPreference, TokenCrossEntropy
from nnc.nn.steps.model_memory import ModelMemory
from nnc.nn.training.training import Callback, History, Listener

CHECKPOINT_SUFFIX = ".checkpoint.safetensors"
# Seconds of work that a killed process may lose: the usual training is one epoch of hours.
BETWEEN_CHECKPOINTS = 600.0
# Rows of preferences whose likelihoods are computed at a time, before the first step.
LIKELIHOOD_ROWS = 4
# Plans that are made for a limit at most.
PLANS = 5
# LLVM at work with an empty cache of kernels: 44 MB for a training step of SmolLM2-135M, 53 for a small one; up to 43
# for its library, which is not there before: a process that finds its kernels on the disk does without.
COMPILING = 100_000_000
# Objects of a program and of its planning by tensors of the network: 79 to 103 kB each, LLaMA of 2 and of 30 blocks.
PROGRAM_PER_TENSOR = 110_000


@explained
@checked
class FineTuning:
    """A model of a file beside texts to learn from; options are those of `TuningOptions`.

    `output` is a folder for an adapter in PEFT's form, or for a whole model of safetensors, or the name of a GGUF file.
    Beside it lies OUTPUT.checkpoint.safetensors, from which `resume` goes on to the very same result.

    UsageError and DataError for what does not fit, MemoryLimitError where no plan is within the `limit`; all of that
    before anything of the weights is read.
    """

    def __init__(
        self,
        path: Path | str,
        data: Path | str,
        output: Path | str,
        *,
        resume: bool = False,
        **options: Any,  # noqa: ANN401  # those of TuningOptions, which checks them
    ) -> None:
        self.options = TuningOptions(**options)
        self.output, self.checkpoint = Path(output), Path(f"{output}{CHECKPOINT_SUFFIX}")
        self.files = open_files(path)
        self.tokenizer = text_tokenizer(self.files)
        if not self.options.adapts or self.output.suffix == ".gguf":
            check_output(self.files, self.output)
        self.context = _context(self.options.context, self.files.facts.context)
        self.examples = read_examples(data, self.tokenizer)
        self.preferences = isinstance(self.examples[0], Preference)
        self.rows = _rows_of(self.examples, self.context)
        check_writable(self.checkpoint)
        self.network = self.files.decoder(self.context, packed=self.options.method == "qlora", floats=USUAL_BLOCKS)
        steps = -(-len(self.rows.tokens) // self.options.batch)
        self.updates = self.options.epochs * -(-steps // self.options.accumulate)
        self.model = self._model(None)
        self.files.tensors.check(self.network.decoder, self.model.specs)
        self._keep_limit()
        self._batches: Batches | None = None
        self._resume = resume
        self.saved_at, self._saved_when = -1, 0.0
        if resume:
            self._check_checkpoint()

    # ---- before the first step

    def _model(self, arena: int | None) -> Model:
        """The network to be trained, in steps whose arena has at most so many bytes."""
        options = self.options
        network: Layer = PairedRows(self.network) if self.preferences else self.network
        if options.adapts:
            network = LoRA(network, options.targets, options.rank, options.alpha)
        row = Input((self.context,), I32)
        return Model(
            network,
            (Input((2, self.context), I32),) if self.preferences else (row, row),
            loss=DirectPreference(options.beta) if self.preferences else TokenCrossEntropy(),
            optimizer=options.optimizer(self.updates, preferences=self.preferences),
            seed=options.seed,
            clip_norm=options.clip_norm,
            memory_limit=arena,
            backend=options.backend,
        )

    def memory(self) -> ModelMemory:
        """What a step takes, before anything of it is there."""
        return self.model.memory(self._batch)

    @property
    def _batch(self) -> int:
        return min(self.options.batch, len(self.rows.tokens))

    def _keep_limit(self) -> None:
        """Give the arena what the limit leaves beside all else; MemoryLimitError where that is nothing.

        Planned once where that can be: what an earlier plan leaves behind is a part of the process.
        """
        limit = self.options.limit
        if limit is None:
            self._plan()
            return
        fix = "a smaller --context or --batch" if self.options.method == "qlora" else 'method="qlora"'
        specs = self.model.specs.values()
        trained = sum(row.spec.nbytes for row in specs if row.trainable)
        # Two states of Adam, and what is copied when an adapter is written.
        own = sum(row.spec.nbytes for row in specs) + 4 * trained
        arena = limit - COMPILING - resident_bytes() - own - PROGRAM_PER_TENSOR * len(specs)
        for _ in range(PLANS):
            if arena <= 0:
                got = f"{limit - arena:,} bytes of process without what a step computes"
                raise MemoryLimitError("finetune", got=got, need=f"at most {limit:,}", fix=fix)
            self.model = self._model(arena)
            try:
                self._plan()
            except MemoryLimitError as error:
                error.fix = fix
                raise
            excess = self.process + COMPILING - limit
            if excess <= 0:
                return
            # Planning once more leaves something behind too.
            arena = min(arena, self._arena()) - excess - PROGRAM_PER_TENSOR * len(specs) // 4
        raise MemoryLimitError("finetune", got=f"{self.process:,} bytes", need=f"at most {limit:,}", fix=fix)

    def _plan(self) -> None:
        """Plan a step, whose objects are a part of the process then."""
        self.memory()
        self._before = resident_bytes()

    def _arena(self) -> int:
        memory = self.memory()
        return max(memory.arena, memory.step.arena)

    @property
    def process(self) -> int:
        """The bytes of the whole process at its peak: what it had when all was planned, and what is yet to come.

        resident + weights + optimizer state + arena + objects of the program + scratch of workers + what is copied when
        an adapter, or a model, is written. Kernels that are compiled for the first time take up to `COMPILING` bytes
        more meanwhile.
        """
        trained, memory = 4 * self.model.parameter_count(), self.memory()
        return self._before + memory.total + memory.step.program + memory.step.scratch + 2 * trained

    def _notes(self) -> dict[str, object]:
        """What tells this training from others, beside its network and optimizer."""
        digest = hashlib.sha256()
        for array in _arrays(self.rows):
            digest.update(array.tobytes())
        chosen = {name: value for name, value in asdict(self.options).items() if name not in ("limit", "backend")}
        chosen["targets"] = list(self.options.targets)
        return {"data": digest.hexdigest(), "base": self.files.tensors.fingerprint(), "options": chosen}

    def _check_checkpoint(self) -> None:
        if not os.path.exists(self.checkpoint):
            need, fix = "the checkpoint of an earlier training", "leave resume out to start anew"
            raise UsageError("resume", got=f"no file {self.checkpoint}", need=need, fix=fix)
        notes, own = read_notes(self.checkpoint), self._notes()
        other = next((name for name in own if notes.get(name) != own[name]), "")
        if other:
            got = f"{self.checkpoint}, of other {'weights' if other == 'base' else other}"
            raise FormatError(
                "resume", got=got, need="the same file, data and options", fix="start anew without resume"
            )

    # ---- training

    @checked
    def train(self, callbacks: Sequence[Callback | Listener] = (), stop: Callable[[], bool] = lambda: False) -> History:
        """Train to the last epoch, or until `stop` says so.

        What came of it is written after each epoch, every ten minutes, and at the end, after Ctrl-C too: the adapter,
        or model, is that of the last whole update. A second call goes on.
        """
        model, batches = self.model, self._begun()
        self._saved_when = monotonic()

        def after(progress: Any) -> None:  # noqa: ANN401  # Progress
            if progress.epoch_done or monotonic() - self._saved_when >= BETWEEN_CHECKPOINTS:
                self._save(batches)

        left = self.options.epochs - batches.state().epoch
        try:
            return model.fit(
                batches,
                epochs=max(left, 0),
                accumulate=self.options.accumulate,
                callbacks=[*callbacks, after],
                stop=stop,
            )
        finally:
            with suppress(InterruptedUpdateError):
                self._save(batches)

    def _begun(self) -> Batches:
        """The batches, where the last call, or the checkpoint, left them."""
        if self._batches is None:
            batches = Batches(self._examples(), self.options.batch, seed=self.options.seed)
            if self._resume:
                batches.restore(load_checkpoint(self.checkpoint, self.model, trained_only=True).batches)
                self.saved_at = self.model.updates
            self._batches = batches
        return self._batches

    def _examples(self) -> Examples:
        if isinstance(self.rows, PackedSequences):
            return Examples("rows", (self.rows.tokens, self.rows.starts), self.rows.labels)
        return Examples("pairs", self.rows.tokens, (self.rows.labels, self._likelihoods(self.rows)))

    def _likelihoods(self, rows: PairedAnswers) -> NDArray[np.float32]:
        """log p of each answer by the file's model, which adapters begin as."""
        pair = Input((2, self.context), I32)
        before = Model(AnswerLikelihoods(PairedRows(self.network)), (pair, pair), backend=self.options.backend)
        size = min(self._batch, LIKELIHOOD_ROWS)
        return cast("NDArray[np.float32]", before.predict((rows.tokens, rows.labels), batch_size=size))

    def _save(self, batches: Batches) -> None:
        """Write the checkpoint, then what it is for, unless both are those of this update."""
        if self.saved_at == self.model.updates:
            return
        save_checkpoint(
            self.checkpoint, self.model, position_of(self.model, batches), notes=self._notes(), trained_only=True
        )
        self.write()
        self.saved_at, self._saved_when = self.model.updates, monotonic()

    def products(self) -> Products:
        """What the training adds to each matrix."""
        scale = np.float32(self.options.alpha / self.options.rank)
        held = self._trained()
        paths = [path.removesuffix(".lora_a") for path in held if path.endswith(".lora_a")]
        return {path: LowRank(held[f"{path}.lora_a"], held[f"{path}.lora_b"] * scale) for path in paths}

    def write(self) -> None:
        """Write the adapter, or the whole model, as it is now."""
        if not self.options.adapts:
            write_trained(self.files, self._trained(), self.output)
        elif self.output.suffix == ".gguf":
            write_merged(self.files, self.products(), self.output)
        else:
            write_adapter(self.output, self.files, self.products(), self.options.rank, self.options.alpha)

    def _trained(self) -> Mapping[str, NDArray[np.float32]]:
        model = self.model

        def copies() -> dict[str, NDArray[np.float32]]:
            return {path: np.array(tensor.to(CPU).numpy()) for path, tensor in model.parameters.items()}

        return model.between_updates("finetune", copies)


def _context(asked: int, most: int) -> int:
    if asked > most:
        raise UsageError("context", got=f"{asked} tokens", need=f"at most {most}, for which the model was trained")
    return asked or min(most, USUAL_CONTEXT)


def _rows_of(examples: Sequence[Example], context: int) -> PackedSequences | PairedAnswers:
    preferences = [example for example in examples if isinstance(example, Preference)]
    if preferences:
        return paired_answers(preferences, context)
    sequences = [example for example in examples if not isinstance(example, Preference)]
    # A text that is all learned goes on where it is cut.
    return packed_rows(sequences, context, whole=all(bool(each.learned[1:].all()) for each in sequences))


def _arrays(rows: PackedSequences | PairedAnswers) -> tuple[NDArray[np.generic], ...]:
    first = (rows.tokens, rows.labels)
    return (*first, rows.starts) if isinstance(rows, PackedSequences) else first
