"""Training passes of a model: an update or gradients that are summed, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import explained_as
from nnc.core.precautions.shield import Shield
from nnc.core.values.spec import Shape
from nnc.core.values.tensor import Tensor
from nnc.errors import NotFiniteError, UsageError
from nnc.nn.model.compiled_steps import ModelSteps
from nnc.nn.model.rank_agreement import agree_on_step, agree_on_weights
from nnc.nn.optimization.interruption import PassState
from nnc.nn.steps.keys import StepKey, StepKind, step_kind
from nnc.nn.steps.model_step import ModelStep, Values
from nnc.parallel import RankGroup, count_of_all, joined

R = TypeVar("R")
BACKWARD = "backward"
# Mean loss, summed score, outputs where they were asked for, and examples: all of the whole batch but the outputs.
PassResult = tuple[float, float, tuple[NDArray[np.generic], ...], int]


def nothing() -> None:
    """Done after an update, where nobody asks for more."""


@explained_as("Model")
class ModelUpdates(ModelSteps):
    """A model that is trained."""

    @property
    def errors(self) -> dict[str, Tensor]:
        """What sums of gradients in few bits (`compress`) lost on this rank, by name."""
        return self._own.errors(self.options.optimizer)

    def train_on_batch(
        self, inputs: Values, target: Values, *, done: Callable[[], object] = nothing
    ) -> tuple[float, float]:
        """One update, with a call of `done`; returns the batch's mean loss and its summed score.

        Ctrl-C waits for the end of the update, so weights, `updates` and what `done` counts change together; a second
        one does not wait. Compiling, before the first update of a batch size, can be interrupted at any time.

        An error, such as one of a custom command, that comes before the update writes its first tensor leaves all as it
        was. One that comes later may leave tensors half renewed: from then on the model is an InterruptedUpdateError,
        until a checkpoint or a whole state is loaded, or `accept_interrupted_update` called.
        """
        return self._training_pass(inputs, target, done, update=True, outputs=False)[:2]

    def backward(self, inputs: Values, target: Values, *, done: Callable[[], object] = nothing) -> tuple[float, float]:
        """Add the gradients of a batch to `gradients`, where they wait for `apply_gradients`; loss and score.

        Several calls count as one batch of all their examples, but for statistics, which each call renews.
        """
        return self._training_pass(inputs, target, done, update=False, outputs=False)[:2]

    def training_pass(
        self,
        inputs: Values,
        target: Values,
        *,
        done: Callable[[], object] = nothing,
        update: bool = True,
        outputs: bool = False,
    ) -> PassResult:
        """`train_on_batch`, or `backward` without the update; with `outputs` the model's outputs are given too."""
        return self._training_pass(inputs, target, done, update=update, outputs=outputs)

    def _training_pass(
        self, inputs: Values, target: Values, done: Callable[[], object], *, update: bool, outputs: bool
    ) -> PassResult:
        subject = "train_on_batch" if update else BACKWARD
        rules, length = self._sizes.rules_for(subject, inputs)
        examples = rules.checked_inputs(subject, inputs)
        count = len(examples[0])
        targets = rules.checked_targets(subject, target, count)
        key = StepKey(StepKind.TRAIN if update else StepKind.BACKWARD, count, length, outputs)
        if update and count:
            key = self._programs.fitting(key)
        step = self._programs.step(key)
        self._agree(key.kind, (count, length))
        step.program.allocate()
        if key.padded:
            examples = self._sizes.padded(key, examples, count, length)
            targets = self._sizes.padded_targets(key, targets)
        batch = (*examples, *targets)

        def run() -> PassResult:
            whole = count_of_all(self.options.ranks, count)
            if self.options.ranks is not None:
                self._own.part.copy_from(count / whole if whole else 1.0)
            self._steer(update)
            loss, score, *others = step.views_of(batch)
            finite = True
            if len(others) > outputs * len(self.outputs):
                finite = self._is_finite(loss, others.pop(0))
            self.draws += 1
            self.updates += update and finite
            self._summed += whole if finite and not update else 0
            pairs = zip(others, rules.outputs)
            real = tuple([np.array(output[region((count, *spec.shape))]) for output, spec in pairs])
            return float(loss.item()), float(score.item()), real, whole

        return self._whole(subject, step, run, done)

    def _agree(self, kind: StepKind, size: tuple[int, int]) -> None:
        """DisagreementError where ranks begin with other weights, or train otherwise: asked once for each kind."""
        options = self.options
        if options.ranks is None or options.all_ranks is None or kind in self._agreed:
            return
        if not self._agreed:
            self._agree_on_weights(options.ranks)
            if options.tensor_ranks is not None:
                self._agree_on_weights(options.tensor_ranks)
        agree_on_step(options, self.specs, kind, size)
        self._agreed.add(kind)

    def _agree_on_weights(self, ranks: RankGroup) -> None:
        """The same of all weights that each of these ranks has as the others have them."""
        sharding, specs = self.options.sharding, self.specs
        common = [
            path
            for path, row in specs.items()
            if not sharding.splits(row) and not (ranks == sharding.tensor and sharding.is_block(row))
        ]
        tensors = self.tensors()
        agree_on_weights(ranks, ((path, tensors[path].copied()) for path in common if path in tensors))

    def apply_gradients(self, *, done: Callable[[], object] = nothing) -> None:
        """One update by the mean of `gradients` over their examples, which are zero then, with a call of `done`."""
        if not self._summed:
            raise UsageError("apply_gradients", got="no gradients", need="a call of backward before")
        step = self._programs.step(StepKey(StepKind.APPLY, 1))
        step.program.allocate()

        def run() -> None:
            self._own.share_of_each.copy_from(1.0 / self._summed)
            self._steer(True)
            total = step.views()
            if total:
                self._is_finite(total[0], total[0], scaled=False)
            self.zero_gradients()
            self.updates += 1

        self._whole("apply_gradients", step, run, done)

    def _whole(self, subject: str, step: ModelStep, run: Callable[[], R], done: Callable[[], object]) -> R:
        """What `run` gives, which runs the step and counts it, with a call of `done`: one change that Ctrl-C awaits."""

        def turn() -> R:
            self._mark.check(subject)
            with Shield(breakable=True):
                of_weights = subject != BACKWARD
                return self._mark.during(self.updates + 1, step.program, run, done, of_weights=of_weights)

        return self._programs.arena.runs.exclusively(turn)

    def zero_gradients(self) -> None:
        """Forget the gradients that no update followed."""

        def zero() -> None:
            self._summed = 0
            for tensor in self.gradients.values():
                tensor.clear()

        self.exclusively(zero)

    def pass_state(self) -> PassState:
        """What passes without an update change: statistics, sums of gradients, the count of draws, the loss's scale."""

        def copies(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[np.generic]]:
            return {path: tensor.copied() for path, tensor in tensors.items()}

        def take() -> PassState:
            gradients = copies(self.gradients) if self._summed else {}
            return PassState(copies(self.statistics), gradients, self._summed, self.draws, self.scaling)

        return self.between_updates(BACKWARD, take)

    def take_back_passes(self, state: PassState) -> None:
        """Nothing of the passes since then has happened, be it that one of them broke off while it wrote."""

        def restore() -> None:
            for path, values in state.statistics.items():
                self.statistics[path].copy_from(values)
            for path, tensor in self.gradients.items():
                tensor.copy_from(state.gradients.get(path, 0))
            self._summed, self.draws, self.scaling = state.summed, state.draws, state.scaling
            if not self._mark.of_weights:
                self.accept_interrupted_update()

        self.exclusively(restore)

    def tensors_of(self, kind: str = "train") -> dict[str, Tensor]:
        """The tensors that a step of this kind reads and renews, by name, the numbers that steer it among them.

        Those have the values of the next step; whoever runs steps without the model sees to them.
        """
        asked = step_kind("tensors_of", kind)
        if asked.differentiates:
            self._steer(asked.updates)
        return self._homes(asked)

    def _steer(self, update: bool) -> None:
        """Write the numbers of the next pass."""
        optimizer = self.options.optimizer
        values = optimizer.scalars(self.updates - self.since + 1) if update else {}
        ranks = self.options.ranks
        draws = self.draws if ranks is None else self.draws * ranks.size + joined(ranks).rank
        self._own.steer(draws, self.scaling.scale, optimizer, values)

    def _is_finite(self, loss: NDArray[np.generic], total: NDArray[np.generic], *, scaled: bool = True) -> bool:
        """False where the guard held back what a smaller scale of the loss may mend; NotFiniteError for all else."""
        finite = bool(np.isfinite(float(total.item())))
        rule = self.options.loss_scale if scaled else None
        if rule is not None and (finite or rule.may_fall(self.scaling)):
            self.scaling = rule.after(self.scaling, finite=finite)
            return finite
        if finite:
            return True
        got, need = f"update {self.updates + 1} of loss {loss.item():g}", "finite loss, gradients and statistics"
        error = NotFiniteError("train_on_batch", got=got, need=need, fix="a lower rate, or inputs that are finite")
        error.step, error.loss = self.updates + 1, float(loss.item())
        raise error


def region(shape: Shape) -> tuple[slice, ...]:
    """The first places of each axis: what is real of something padded."""
    return tuple([slice(size) for size in shape])
