"""nnc train: its facts, its checkpoint, its end by signals, its answers to bad input."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.forks import ForkedProgram

from nnc import nn
from nnc.cli.progress import shown
from nnc.cli.recipe import Notes
from nnc.cli.recipes import RECIPES
from nnc.core.values.serialize import save_tensors
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.nn import Model, read_position
from nnc.nn.data import Batches, load

CHECKPOINT = "digits.safetensors"
DIGITS_NOTES = Notes("digits", 1437, 64, {}).as_json()
UPDATES_PER_EPOCH = 23
NEVER = "1000000"

FACTS = {
    "program": str,
    "interrupted": bool,
    "seed": int,
    "batch_size": int,
    "backend": str,
    "threads": int,
    "summary": list,
    "parameters": int,
    "memory": dict,
    "epochs": int,
    "epochs_done": int,
    "updates": int,
    "history": list,
    "train_seconds": float,
    "samples_per_second": float,
    "test_accuracy": float,
    "test_loss": float,
    "test_examples": int,
    "checkpoint": str,
    "sha256": str,
    "versions": dict,
}
MEMORY = {
    "batch": int,
    "arena_bytes": int,
    "lower_bound_bytes": int,
    "without_reuse_bytes": int,
    "workspace_bytes": int,
    "weights_bytes": int,
    "gradients_bytes": int,
    "optimizer_state_bytes": int,
    "total_bytes": int,
    "process_bytes": int,
    "repeated_commands": int,
    "work_ratio": float,
    "optimal": bool,
    "peak_step": int,
    "peak_tensors": list,
}


def types(facts: dict[str, object]) -> dict[str, type]:
    return {name: type(value) for name, value in facts.items()}


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def signals_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Send signals to ourselves in the middle of an update."""
    original = Model.training_pass

    def arrange(update: int, *numbers: signal.Signals) -> None:
        def training_pass(model: Model, *batch: object, **named: object) -> object:
            if model.updates + 1 == update:
                for number in numbers:
                    signal.raise_signal(number)
            return original(model, *batch, **named)

        monkeypatch.setattr(Model, "training_pass", training_pass)

    return arrange


class TestFacts:
    def test_json_is_one_object_and_nothing_else(self, shell, folder) -> None:
        ran = shell("train", "digits", "--epochs", "2", "--json")
        assert ran.code == 0
        facts = json.loads(ran.out)
        assert types(facts) == FACTS
        assert types(facts["memory"]) == MEMORY
        assert ran.err.count("\n") == 2
        assert ran.err.startswith("epoch 1/2  loss ")

        assert (facts["epochs"], facts["epochs_done"], facts["updates"]) == (2, 2, 2 * UPDATES_PER_EPOCH)
        assert [(epoch["epoch"], epoch["examples"]) for epoch in facts["history"]] == [(1, 1437), (2, 1437)]
        assert facts["history"][1]["loss"] < facts["history"][0]["loss"]
        assert facts["sha256"] == sha256(folder / facts["checkpoint"])
        assert facts["parameters"] == sum(row["parameters"] for row in facts["summary"])
        memory = facts["memory"]
        assert memory["lower_bound_bytes"] <= memory["arena_bytes"] <= 1.02 * memory["lower_bound_bytes"]
        assert memory["without_reuse_bytes"] > memory["arena_bytes"]
        assert memory["weights_bytes"] == 4 * facts["parameters"]
        assert memory["optimizer_state_bytes"] == 2 * memory["weights_bytes"]

    def test_a_memory_limit_changes_the_memory_and_not_the_result(self, call) -> None:
        options = ("train", "digits", "--epochs", "1", "--backend", "reference", "--json")
        free = json.loads(call(*options).out)
        limit = int(0.9 * free["memory"]["arena_bytes"])
        small = json.loads(call(*options, "--memory-limit", limit).out)
        assert small["memory"]["arena_bytes"] <= limit < free["memory"]["arena_bytes"]
        assert (free["memory"]["repeated_commands"], free["memory"]["work_ratio"]) == (0, 1.0)
        assert small["memory"]["repeated_commands"] > 0
        assert small["memory"]["work_ratio"] > 1.0
        assert small["sha256"] == free["sha256"]
        assert small["test_accuracy"] == free["test_accuracy"]

    def test_a_memory_limit_that_cannot_be_met_names_one_that_can(self, call) -> None:
        ran = call("train", "digits", "--memory-limit", "1000")
        assert ran.code == 2
        assert "got memory_limit=1000; need at least " in ran.err

    def test_the_defaults_are_enough(self, call) -> None:
        facts = json.loads(call("train", "digits", "--json").out)
        assert facts["test_accuracy"] >= 0.98
        assert facts["train_seconds"] < 60
        assert len(facts["history"]) == facts["epochs"]

    def test_people_read_the_same_facts(self, call, folder) -> None:
        ran = call("train", "digits", "--epochs", "1", "--checkpoint", "kept.safetensors")
        assert ran.code == 0
        for fact in ("conv1", "18,496", "62,250", "arena", "lower bound", "without reuse", "optimizer state"):
            assert fact in ran.out
        for fact in ("498,000", "proven", "test accuracy", "of 360", "samples/s", "checkpoint kept.safetensors"):
            assert fact in ran.out
        assert [file.name for file in folder.iterdir()] == ["kept.safetensors"]

    def test_memory_is_stated_for_the_step_that_is_run(self, call) -> None:
        facts = json.loads(call("train", "digits", "--epochs", "0", "--batch-size", "1000000000", "--json").out)
        assert facts["memory"]["batch"] == 1437

    def test_no_epochs_keep_the_untrained_model(self, call, folder) -> None:
        facts = json.loads(call("train", "digits", "--epochs", "0", "--json").out)
        assert (facts["history"], facts["updates"], facts["samples_per_second"]) == ([], 0, 0.0)
        assert read_position(folder / CHECKPOINT).updates == 0

    def test_the_bar_shows_on_a_terminal(self, start, folder) -> None:
        ours, theirs = os.openpty()
        arguments = ("train", "digits", "--epochs", "1")
        process = start(*arguments, TERM="xterm", COLUMNS="120", stderr=theirs)
        os.close(theirs)
        shown = b""
        while chunk := read_terminal(ours):
            shown += chunk
        os.close(ours)
        assert process.wait(timeout=60) == 0
        assert b"epoch 1/1" in shown
        assert b"samples/s" in shown
        assert b"accuracy" in shown


def read_terminal(handle: int) -> bytes:
    """What the other side wrote; nothing once it has closed the terminal."""
    try:
        return os.read(handle, 65536)
    except OSError:
        return b""


class TestBits:
    def test_same_seed_same_bits_with_any_number_of_threads(self, call, shell, folder) -> None:
        """One in this process, two in another."""
        sums = [
            json.loads(run("train", "digits", "--epochs", "1", "--seed", "7", "--threads", threads, "--json").out)
            for run, threads in ((call, "1"), (shell, "2"))
        ]
        assert [facts["threads"] for facts in sums] == [1, 2]
        assert len({facts["sha256"] for facts in sums}) == 1

    def test_another_seed_gives_other_bits(self, call, folder) -> None:
        first, second = (
            json.loads(call("train", "digits", "--epochs", "0", "--seed", seed, "--json").out)["sha256"]
            for seed in ("1", "9223372036854775807")
        )
        assert first != second


class TestStopAndResume:
    def test_a_stop_within_an_epoch_changes_nothing(self, call, folder, signals_at) -> None:
        call("train", "digits", "--epochs", "2", "--checkpoint", "whole")
        signals_at(30, signal.SIGINT)
        ran = call("train", "digits", "--epochs", "2", "--json")
        assert ran.code == 130
        facts = json.loads(ran.out)
        assert (facts["interrupted"], facts["updates"], facts["epochs_done"]) == (True, 30, 1)
        assert (facts["test_accuracy"], facts["test_loss"]) == (None, None)
        assert facts["sha256"] == sha256(folder / CHECKPOINT)
        assert ran.err.splitlines()[-1].startswith("nnc: SIGINT: stopped after 30 updates. Fix: go on with --resume")

        signals_at(0)
        resumed = call("train", "digits", "--epochs", "2", "--resume", "--json")
        assert resumed.code == 0
        assert [(row["epoch"], row["examples"]) for row in json.loads(resumed.out)["history"]] == [(2, 1437 - 7 * 64)]
        assert (folder / CHECKPOINT).read_bytes() == (folder / "whole").read_bytes()

    def test_sigterm_ends_with_its_own_code(self, call, folder, signals_at) -> None:
        signals_at(1, signal.SIGTERM)
        ran = call("train", "digits", "--epochs", "1")
        assert ran.code == 143
        assert "test accuracy" not in ran.out
        assert read_position(folder / CHECKPOINT).updates == 1

    def test_the_second_signal_leaves_at_once(self, call, folder, signals_at) -> None:
        call("train", "digits", "--epochs", "1", "--checkpoint", "first")
        signals_at(30, signal.SIGINT, signal.SIGINT)
        ran = call("train", "digits", "--epochs", "2")
        assert ran.code == 130
        assert sorted(file.name for file in folder.iterdir()) == [CHECKPOINT, "first"]
        assert (folder / CHECKPOINT).read_bytes() == (folder / "first").read_bytes()

    def test_the_second_signal_while_the_checkpoint_is_written(self, call, folder, monkeypatch) -> None:
        call("train", "digits", "--epochs", "1")
        before = sha256(folder / CHECKPOINT)

        def replace(source: str, target: str) -> None:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)

        monkeypatch.setattr("nnc.core.precautions.replacement.os.replace", replace)
        assert call("train", "digits", "--epochs", "2", "--resume").code == 143
        assert [file.name for file in folder.iterdir()] == [CHECKPOINT]
        assert sha256(folder / CHECKPOINT) == before

    def test_handlers_are_put_back(self, call) -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        call("train", "digits", "--epochs", "0")
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

    def test_ctrl_c_in_a_process_of_its_own(self, start, call, folder) -> None:
        process = start("train", "digits", "--epochs", NEVER)
        wait_for_epoch(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert err.splitlines()[-1].startswith("nnc: SIGINT: stopped after ")
        assert "Traceback" not in err
        finish_and_compare(call, folder)

    def test_a_second_signal_in_a_process_of_its_own(self, start, folder) -> None:
        """Wherever it is by then: in a step, in a checkpoint, or at its end, after which it said -15."""
        for pause in (0.0, 0.15):
            (folder / CHECKPOINT).unlink(missing_ok=True)
            process = start("train", "digits", "--epochs", NEVER)
            wait_for_epoch(process)
            while not (folder / CHECKPOINT).exists():
                time.sleep(0.001)
            before = read_position(folder / CHECKPOINT).updates
            process.send_signal(signal.SIGTERM)
            time.sleep(pause)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            assert (process.returncode, "Traceback" in err) == (143, False)
            assert read_position(folder / CHECKPOINT).updates >= before

    def test_resume_takes_seed_and_batch_size_from_the_checkpoint(self, call, folder) -> None:
        options = ("train", "digits", "--seed", "5", "--batch-size", "100")
        call(*options, "--epochs", "2", "--checkpoint", "whole")
        call(*options, "--epochs", "1")
        ran = call("train", "digits", "--resume", "--epochs", "2", "--json")
        assert (json.loads(ran.out)["seed"], json.loads(ran.out)["batch_size"]) == (5, 100)
        assert (folder / CHECKPOINT).read_bytes() == (folder / "whole").read_bytes()

    def test_resume_with_nothing_left_to_do(self, call, folder, trained) -> None:
        shutil.copy(trained, folder / CHECKPOINT)
        ran = call("train", "digits", "--resume", "--epochs", "2", "--backend", "reference", "--json")
        assert ran.code == 0
        assert json.loads(ran.out)["sha256"] == sha256(trained)

    def test_a_kill_leaves_a_whole_checkpoint(self, start, call, folder) -> None:
        """Killed again and again, mostly while it writes; that it still ends as if nothing had been shows all."""
        delays = random.Random(0)
        for attempt in range(2):
            resume = ("--resume",) if attempt else ()
            process = start("train", "digits", "--epochs", NEVER, *resume)
            wait_for_epoch(process)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=delays.uniform(0.0, 0.02))
            process.kill()
            process.communicate(timeout=60)
            if not (folder / CHECKPOINT).exists():
                call("train", "digits", "--epochs", "0")
            position = read_position(folder / CHECKPOINT)
            assert position.updates == position.batches.epoch * UPDATES_PER_EPOCH
        finish_and_compare(call, folder)


def wait_for_epoch(process: ForkedProgram) -> None:
    """Until the line of an epoch is there; its checkpoint is written right after."""
    assert process.stderr is not None
    assert process.stderr.readline().startswith("epoch ")


def finish_and_compare(call: Callable[..., object], folder: Path) -> None:
    """One more epoch from the checkpoint gives the same bytes as all epochs at once."""
    epochs = str(read_position(folder / CHECKPOINT).batches.epoch + 1)
    call("train", "digits", "--resume", "--epochs", epochs)
    call("train", "digits", "--epochs", epochs, "--checkpoint", "whole")
    assert (folder / CHECKPOINT).read_bytes() == (folder / "whole").read_bytes()


REFUSED_OPTIONS = {
    "unknown program": (["digitz"], "did you mean 'digits'?"),
    "unknown backend": (["digits", "--backend", "nope"], "got nope; need one of"),
    "batch size 0": (["digits", "--batch-size", "0"], "--batch-size"),
    "negative batch size": (["digits", "--batch-size", "-8"], "--batch-size"),
    "negative epochs": (["digits", "--epochs", "-1"], "--epochs"),
    "negative threads": (["digits", "--threads", "-1"], "--threads"),
    "negative seed": (["digits", "--seed", "-1"], "--seed"),
    "a word for a number": (["digits", "--epochs", "many"], "--epochs"),
    "unknown option": (["digits", "--epoch", "3"], "--epoch"),
    "nothing": ([], "PROGRAM"),
    "no folder": (["digits", "--checkpoint", "absent/file"], "no such file or directory"),
    "a file as folder": (["digits", "--checkpoint", "present/file"], "not a directory"),
    "a folder as file": (["digits", "--checkpoint", "."], "a folder"),
    "no name": (["digits", "--checkpoint", ""], "a folder"),
    "a long name": (["digits", "--checkpoint", "a" * 300], "file name too long"),
    "a device": (["digits", "--checkpoint", os.devnull], "no plain file"),
    "nothing to resume": (["digits", "--resume"], "leave --resume out to start anew"),
    "text to resume": (["digits", "--resume", "--checkpoint", "present"], "need a whole safetensors file"),
    "steering characters": (["digits", "--checkpoint", "absent\x1b[2J\n/file"], r"absent\x1b[2J\n/file"),
}


@pytest.mark.parametrize("case", REFUSED_OPTIONS)
def test_bad_options_are_refused(call, folder, case: str) -> None:
    arguments, words = REFUSED_OPTIONS[case]
    (folder / "present").write_text("hello")
    assert words in call("train", *arguments).complaint()
    assert [file.name for file in folder.iterdir()] == ["present"]
    assert (folder / "present").read_text() == "hello"


RESUME_REFUSED = {
    "another seed": (["--seed", "1"], "leave --seed out"),
    "another batch size": (["--batch-size", "32"], "leave --batch-size out"),
    "fewer epochs": (["--epochs", "1"], "ask for 3 or more"),
}


@pytest.mark.parametrize("case", RESUME_REFUSED)
def test_resume_refuses_what_would_not_be_the_same(call, folder, trained, case: str) -> None:
    arguments, words = RESUME_REFUSED[case]
    shutil.copy(trained, folder / CHECKPOINT)
    assert words in call("train", "digits", "--resume", *arguments).complaint()
    assert sha256(folder / CHECKPOINT) == sha256(trained)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def without_facts(file: Path) -> None:
    save_tensors(file, {"w": Tensor.zeros(spec((2, 2)))})


def of_another_model(file: Path, notes: dict[str, object] | None = DIGITS_NOTES) -> None:
    data = load("digits").train
    model = Model(nn.Sequential(flatten=nn.Flatten(), classes=nn.Dense(10)), (8, 8, 1))
    nn.save_checkpoint(file, model, nn.position_of(model, Batches(data, 64)), notes=notes)


def of_no_program(file: Path) -> None:
    of_another_model(file, notes=None)


def forged(**changes: object) -> Callable[[Path], None]:
    """The facts of a checkpoint with some of them changed."""

    def damage(file: Path) -> None:
        batches = {"seed": 0, "epoch": changes.get("epoch", 0), "position": 0}
        position = {"updates": 0, "batch_size": 64} | changes | {"batches": batches}
        facts = {"version": 1, "architecture": "", "position": position}
        save_tensors(file, {}, {"nnc": json.dumps(facts)})

    return damage


BAD_CHECKPOINTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut short": (cut, "need a whole safetensors file"),
    "empty": (lambda file: file.write_bytes(b""), "need a whole safetensors file"),
    "text": (lambda file: file.write_text("hello, I am no checkpoint"), "need a whole safetensors file"),
    "no facts": (without_facts, "without a checkpoint's facts"),
    "another model": (of_another_model, "need a checkpoint of this model"),
    "no program": (of_no_program, "need a checkpoint that nnc train wrote"),
    "not an object": (lambda file: save_tensors(file, {}, {"nnc": "[1]"}), "without a checkpoint's facts"),
    "deep": (lambda file: save_tensors(file, {}, {"nnc": "[" * 100_000}), "without a checkpoint's facts"),
    "batch size 0": (forged(batch_size=0), "without a checkpoint's facts"),
    "a word": (forged(epoch="one"), "without a checkpoint's facts"),
    "infinite": (forged(updates=float("inf")), "without a checkpoint's facts"),
    "endless": (forged(updates=10**400), "without a checkpoint's facts"),
    "no architecture": (forged(), "need a checkpoint of this model"),
}


@pytest.mark.parametrize("case", BAD_CHECKPOINTS)
@pytest.mark.parametrize("command", [["predict", "digits"], ["train", "digits", "--resume"]], ids=" ".join)
def test_bad_checkpoints_are_refused(call, folder, trained, case: str, command: list[str]) -> None:
    damage, words = BAD_CHECKPOINTS[case]
    file = folder / CHECKPOINT
    shutil.copy(trained, file)
    damage(file)
    before = sha256(file)
    assert words in call(*command).complaint()
    assert sha256(file) == before


def test_a_position_that_cannot_be_is_refused(call, folder) -> None:
    data = load("digits")
    model = RECIPES["digits"].model({}, len(data.train), 64, 0)
    model.updates = 5
    notes = Notes("digits", len(data.train), 64, {}).as_json()
    nn.save_checkpoint(folder / CHECKPOINT, model, nn.position_of(model, Batches(data.train, 64)), notes=notes)
    assert "need 23 updates in each epoch" in call("train", "digits", "--resume").complaint()


def test_a_full_disk_keeps_the_old_checkpoint(call, folder, trained, monkeypatch) -> None:
    shutil.copy(trained, folder / CHECKPOINT)

    def fsync(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nnc.core.precautions.replacement.os.fsync", fsync)
    ran = call("train", "digits", "--epochs", "1", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "no space left on device" in ran.err
    assert [file.name for file in folder.iterdir()] == [CHECKPOINT]
    assert sha256(folder / CHECKPOINT) == sha256(trained)


@pytest.mark.parametrize("name", ["run.html", "run.json"])
def test_a_profile_says_where_the_time_goes_and_changes_nothing(call, folder, name: str) -> None:
    plain = json.loads(call("train", "digits", "--epochs", "1", "--batch-size", "700", "--json").out)
    (folder / "digits.safetensors").unlink()
    ran = call("train", "digits", "--epochs", "1", "--batch-size", "700", "--json", "--profile", name)
    assert ran.code == 0
    assert json.loads(ran.out)["sha256"] == plain["sha256"]
    text = (folder / name).read_text()
    assert "convolution" in text
    assert "worker 0" in text


def test_a_profile_is_a_page_or_a_trace(call) -> None:
    assert (
        "--profile: got run.txt; need a file that ends with .html or .json"
        in call("train", "digits", "--profile", "run.txt").complaint()
    )


def test_of_several_ranks_the_first_shows_its_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training: Any = SimpleNamespace(task=SimpleNamespace(measure=SimpleNamespace(name="loss")))
    progress: Any = SimpleNamespace(epoch_done=True, epoch=0, epochs=1, loss=0.5)
    for rank, told in ((0, "epoch 1/1  loss 0.5000  3 samples/s\n"), (1, "")):
        monkeypatch.setattr("nnc.cli.progress.world", lambda rank=rank: SimpleNamespace(rank=rank))
        with shown(training) as show:
            show(progress, 3.0)
        assert capsys.readouterr().err == told
