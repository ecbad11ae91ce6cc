"""Programs of files on the disk: the bits of those that were planned, or nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx.models import model, node
from tests.program_folder import entries, folder

import nnc
import onnx
from nnc.backends.llvm.run.engine import engine
from nnc.core.precautions import disk_cache
from nnc.core.precautions.disk_cache import MAGIC, DiskCache
from nnc.core.settings import SETTINGS
from nnc.errors import IndexRangeError, ShapeError
from nnc.onnx import load
from nnc.onnx.importer import OnnxImporter
from nnc.onnx.made.kept_programs import CachedProgram, ProgramPlace
from nnc.onnx.made.model_stages import OnnxStages
from nnc.onnx.made.onnx_program import OnnxProgram
from nnc.onnx.runner import OnnxModel
from nnc.symbolic import Compiled
from nnc.symbolic.passes import constants as changed_module
from nnc.symbolic.sharing import program_disk
from nnc.symbolic.sharing.program_disk import MODULES, ProgramDisk

__all__ = ["folder"]
RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 3, 12, 12)).astype(np.float32)


def small(scale: float = 1.0) -> bytes:
    """Convolutions, whose weights are packed, a norm that is folded, an output that is a constant, and a product."""
    generator = np.random.default_rng(1)

    def weights(*shape: int) -> np.ndarray:
        return (scale * generator.standard_normal(shape) / 4).astype(np.float32)

    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c g b m v", "n"),
        node("Relu", "n", "r"),
        node("Conv", "r u", "d"),
        node("GlobalAveragePool", "d", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f q bias", "y"),
        node("Shape", "q", "shape"),
    ]
    values = {"w": weights(32, 3, 3, 3), "u": weights(48, 32, 1, 1), "q": weights(48, 5), "bias": weights(5)}
    values |= {"g": weights(32), "b": weights(32), "m": weights(32), "v": np.abs(weights(32))}
    return model(nodes, {"x": ["n", 3, "h", "w"]}, ["y", "shape"], values).SerializeToString()


def program_of(loaded: OnnxModel) -> object:
    (program,) = loaded._programs.values()
    return program


def kept(content: bytes, feeds: dict[str, np.ndarray], **options: Any) -> dict[str, Any]:
    """What a first program answers, which is kept behind its run."""
    loaded = load(content, **options)
    answer = loaded.run(feeds)
    assert isinstance(program_of(loaded), OnnxProgram)
    return answer


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(first.values(), second.values(), strict=True)
    )


def test_a_file_that_was_run_before_is_neither_imported_nor_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(small(), {"x": X})

    def refuse(*_: object) -> None:
        raise AssertionError("the file is imported")

    monkeypatch.setattr(OnnxImporter, "run", refuse)
    loaded = load(small())
    assert same(loaded.run({"x": X}), first)
    assert same(loaded.run({"x": X}), first)
    assert isinstance(program_of(loaded), CachedProgram)


def test_it_says_the_same_of_its_memory() -> None:
    first = load(small())
    first.run({"x": X})
    second = load(small())
    second.run({"x": X})
    assert isinstance(program_of(second), CachedProgram)
    sizes = {"n": 2, "h": 12, "w": 12}
    assert first.memory(**sizes) == second.memory(**sizes)
    assert str(first.memory(**sizes)) == str(second.memory(**sizes))


def test_who_asks_for_a_plan_gets_the_program_with_its_graph() -> None:
    first = kept(small(), {"x": X})
    loaded = load(small())
    loaded.run({"x": X})
    compiled = loaded.compiled(n=2, h=12, w=12)
    assert isinstance(compiled, Compiled)
    assert compiled.memory().arena == compiled.plan()[1].arena_bytes
    assert same(loaded.run({"x": X}), first)


SECOND = """
import hashlib, json, sys
import numpy as np
from nnc.onnx import load
answer = load(sys.argv[1]).run({"x": np.load(sys.argv[2])})
if sys.argv[3] == "kept":
    makers = ("nnc.dynamic", "nnc.onnx.importer", "nnc.onnx.rows", "nnc.planning.portfolio", "nnc.symbolic.ir", "onnx")
    makers += ("nnc.ops", "nnc.codegen.frame", "nnc.codegen.program", "nnc.backends.llvm.assembly", "llvmlite")
    assert not [name for name in sys.modules if name.startswith(makers)], "what makes programs is imported"
print(json.dumps({name: hashlib.sha256(value.tobytes()).hexdigest() for name, value in answer.items()}))
"""


def processes(path: Path, x: Path, cache: Path, *, kept: bool, count: int = 1, **settings: str) -> list[str]:
    """What so many processes at once answer."""
    environment = {**os.environ, "NNC_CACHE_DIR": str(cache), **settings}
    command = [sys.executable, "-W", "error", "-c", SECOND, str(path), str(x), "kept" if kept else ""]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    answers = [each.communicate() for each in running]
    assert [each.returncode for each in running] == [0] * count, answers
    return [answer for answer, _ in answers]


CHANGED = """
import sys
import numpy as np
from nnc.onnx import load
model, x = load(sys.argv[1]), np.load(sys.argv[2])
import nnc.symbolic.passes.groups as groups
groups.fuse = groups.fuse if sys.argv[3] == "same" else lambda *given, **named: None
from nnc import nn
print(type(model.planned({"x": x})[0][0]).__name__)
"""


def kind_with(change: str, path: Path, x: Path, cache: Path) -> str:
    """Which program a process takes in which a pass was put in another's place before anything was made."""
    command = [sys.executable, "-c", CHANGED, str(path), str(x), change]
    environment = {**os.environ, "NNC_CACHE_DIR": str(cache)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not ran.stderr
    return ran.stdout.strip()


def test_processes_share_programs_whether_they_come_at_once_or_behind_each_other(tmp_path: Path) -> None:
    (path, x), cache = (tmp_path / "small.onnx", tmp_path / "x.npy"), tmp_path / "cache"
    path.write_bytes(small())
    np.save(x, X)
    first, second = processes(path, x, cache, kept=False, count=2)
    assert first == second
    if not entries(cache):
        pytest.skip("sources were written while the processes read them")
    assert len(entries(cache)) == 1
    assert [entry for entry in entries(cache) if entry.suffix != ".json"] == []
    assert kind_with("same", path, x, cache) == "CachedProgram"
    assert kind_with("other", path, x, cache) == "OnnxProgram"
    assert len(entries(cache)) == 1
    # A processor without what this one has: other kernels, other plans.
    processes(path, x, cache, kept=False, NNC_LLVM_CPU="x86-64-v2")
    assert len(entries(cache)) == 2
    for entry in (cache / "programs", cache / "weights", cache / "objects"):
        entry.chmod(0o500)
    assert processes(path, x, cache, kept=True) == [first]


@pytest.mark.parametrize("kind", ["program", "weight"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_entry_is_made_again(folder: Path, kind: str, damage: str) -> None:
    first = kept(small(), {"x": X})
    for entry in entries(folder, kind):
        content = bytearray(entry.read_bytes())
        if damage == "changed":
            content[len(content) // 2] ^= 1
        entry.write_bytes({"cut": content[: len(content) // 2], "changed": content, "empty": b""}[damage])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        loaded = load(small())
        assert same(loaded.run({"x": X}), first)
    assert isinstance(program_of(loaded), OnnxProgram)


def changed(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    """Give the entry another content, with a checksum that fits."""
    (entry,) = entries(folder)
    cache = DiskCache(folder, "program", ".json")
    values = json.loads(cache.load(entry.stem) or b"")
    change(values)
    cache.store(entry.stem, json.dumps(values).encode())


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an operand behind the arena": lambda v: v["program"]["parts"][0]["launches"][0]["operands"].__setitem__(
        0, [0, 1 << 40]
    ),
    "an operand in front of it": lambda v: v["program"]["parts"][0]["launches"][0]["operands"].__setitem__(0, [0, -64]),
    "memory that there is not": lambda v: v["program"]["parts"][0]["launches"][0]["reads"].__setitem__(0, [99, 0, 4]),
    "a write behind its memory": lambda v: v["program"]["parts"][0]["launches"][-1]["writes"][0].__setitem__(
        2, 1 << 30
    ),
    "half a byte": lambda v: v["program"]["parts"][0]["launches"][0]["operands"].__setitem__(0, [0, 0.5]),
    "a word that is none": lambda v: v["program"]["parts"][0]["kernels"][0].__setitem__("sizes", [1 << 70]),
    "fewer phases": lambda v: v["program"]["parts"][0]["kernels"][0]["phases"].pop(),
    "a kernel that there is not": lambda v: v["program"]["parts"][0]["launches"][0].__setitem__("kernel", 10_000),
    "an input behind the arena": lambda v: v["program"]["inputs"][0].__setitem__("offset", 1 << 40),
    "an output in front of it": lambda v: v["program"]["outputs"][0].__setitem__("offset", -4),
    "blocks in one place": lambda v: v["program"]["plan"].__setitem__(
        "offsets", [0] * len(v["program"]["plan"]["offsets"])
    ),
    "a smaller arena": lambda v: v["program"]["statement"].__setitem__("arena", 64),
    "no steps": lambda v: v["program"].pop("parts"),
    "no program": lambda v: v.__setitem__("program", None),
    "other weights": lambda v: v["bound"].reverse(),
    "a tensor that the file has not": lambda v: v["bound"].__setitem__(0, 1000),
    "a number in place of a name": lambda v: v["inputs"].__setitem__(0, 7),
    "no bytes": lambda v: v.__setitem__("held", "many"),
    "another output": lambda v: v["outputs"].__setitem__(0, 5),
    "a list": lambda v: v.__setitem__("program", [1, 2]),
    "what is unknown": lambda v: v.__setitem__("unknown", 3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_is_none_is_not_used(folder: Path, change: str) -> None:
    first = kept(small(), {"x": X})
    changed(CHANGES[change], folder)
    loaded = load(small())
    assert same(loaded.run({"x": X}), first)
    assert isinstance(program_of(loaded), OnnxProgram)


def test_text_that_is_no_record_is_not_used(folder: Path) -> None:
    first = kept(small(), {"x": X})
    (entry,) = entries(folder)
    for content in (b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000):
        DiskCache(folder, "program", ".json").store(entry.stem, content)
        assert same(load(small()).run({"x": X}), first)


def test_other_sources_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept(small(), {"x": X})
    monkeypatch.setattr(program_disk, "makers_digest", lambda: "of another version")
    loaded = load(small())
    loaded.run({"x": X})
    assert isinstance(program_of(loaded), OnnxProgram)


def test_where_a_module_was_changed_nothing_is_kept_or_found(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    MODULES.remember()
    name = next(name for name, value in vars(changed_module).items() if callable(value))
    with monkeypatch.context() as patch:
        patch.setattr(changed_module, name, lambda *_: None)
        assert ProgramDisk.at_hand("") is None
    assert ProgramDisk.at_hand("") is not None


def test_another_file_other_options_and_other_sizes_are_other_programs(folder: Path) -> None:
    kept(small(), {"x": X})
    kept(small(2.0), {"x": X})
    kept(small(), {"x": X[:1]})
    kept(small(), {"x": X}, arena=nnc.arena("1MB"))
    assert len(entries(folder)) == 4
    assert isinstance(program_of(_run(load(small(), backend="reference"))), OnnxProgram)
    assert len(entries(folder)) == 4


def _run(loaded: OnnxModel) -> OnnxModel:
    loaded.run({"x": X})
    return loaded


def test_without_a_kernels_object_the_program_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(small(), {"x": X})
    machine = engine()
    monkeypatch.setattr(machine.jit, "_loaded", {})
    monkeypatch.setattr(machine.jit, "cache", replace(machine.jit.cache, kind="nothing"))
    place = ProgramPlace.of(load(small()).file, "", "other options")
    assert place is not None
    loaded = load(small())
    monkeypatch.setattr(type(machine.jit), "restored", lambda *_: None)
    assert same(loaded.run({"x": X}), first)
    assert isinstance(program_of(loaded), OnnxProgram)


def test_a_folder_that_cannot_be_written_keeps_nothing_and_harms_nobody(folder: Path) -> None:
    (folder / "programs").write_bytes(b"a file where a folder would be")
    with pytest.warns(RuntimeWarning, match="not used"):
        first = kept(small(), {"x": X})
    assert same(kept(small(), {"x": X}), first)


def test_a_write_that_breaks_off_leaves_no_entry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache.os, "replace", full)
        first = kept(small(), {"x": X})
    assert entries(folder) == []
    assert entries(folder, "weight") == []
    # What a killed process leaves has another name.
    (folder / "programs" / "tmpabc").write_bytes(MAGIC + b"half")
    assert same(kept(small(), {"x": X}), first)
    assert isinstance(program_of(_run(load(small()))), CachedProgram)


def test_more_weights_than_fit_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "cached_code_bytes", 4096)
    first = kept(small(), {"x": X})
    assert entries(folder) == []
    assert same(kept(small(), {"x": X}), first)


def test_further_sizes_have_the_bits_of_programs_made_for_them() -> None:
    sizes = [(1, 12), (2, 12), (3, 16), (5, 9), (1, 20)]
    feeds = [{"x": RANDOM.standard_normal((n, 3, side, side)).astype(np.float32)} for n, side in sizes]
    alone = [load(onnx.load_from_string(small())).run(given) for given in feeds]
    kept(small(), feeds[0])
    loaded = load(small())
    for _ in range(2):
        for given, answer in zip(feeds, alone, strict=True):
            assert same(loaded.run(given), answer)
    kinds = [type(program).__name__ for program in loaded._programs.values()]
    assert kinds.count("CachedProgram") == 1
    # The second size is open already, since the first one is known.
    assert loaded._templates._kept


def test_values_that_are_asked_for_are_asked_for_again() -> None:
    content = model([node("Reshape", "x shape", "r"), node("Softmax", "r", "y")], {"x": [4, 6], "shape": [2]}, ["y"])
    content.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    data = content.SerializeToString()
    x = RANDOM.standard_normal((4, 6)).astype(np.float32)
    shapes = [np.array([3, 8]), np.array([2, 12])]
    first = load(data)
    answers = [first.run({"x": x, "shape": shape}) for shape in shapes]
    second = load(data)
    for shape, answer in zip(shapes, answers, strict=True):
        assert same(second.run({"x": x, "shape": shape}), answer)
    assert second.by_value == {"shape"}
    assert [type(program) for program in second._programs.values()] == [CachedProgram] * 2
    with pytest.raises(ShapeError) as told:
        second.run({"x": x, "shape": np.array([5, 5])})
    with pytest.raises(ShapeError) as alone:
        load(content).run({"x": x, "shape": np.array([5, 5])})
    assert str(told.value).partition("(")[0] == str(alone.value).partition("(")[0]


def staged() -> bytes:
    """Rows of the input that are greater than zero at the first place, whose number the data say."""
    nodes = [
        node("MatMul", "x w", "p"),
        node("Relu", "p", "r"),
        node("NonZero", "r", "places"),
        node("Cast", "places", "numbers", to=onnx.TensorProto.FLOAT),
        node("Mul", "numbers numbers", "y"),
    ]
    return model(nodes, {"x": ["n", 6]}, ["y"], {"w": np.eye(6, 64, dtype=np.float32)}).SerializeToString()


def test_stages_are_kept_part_by_part() -> None:
    x = RANDOM.standard_normal((8, 6)).astype(np.float32)
    first, second = load(staged()), load(staged())
    answer = first.run({"x": x})
    assert same(second.run({"x": x}), answer)
    assert isinstance(program_of(second), OnnxStages)
    before = program_of(second).before  # type: ignore[attr-defined]
    assert isinstance(program_of(before), CachedProgram)
    other = RANDOM.standard_normal((8, 6)).astype(np.float32)
    assert same(second.run({"x": other}), first.run({"x": other}))


def test_an_error_of_a_step_names_the_operator_as_before() -> None:
    content = model([node("Gather", "w places", "y")], {"places": ["n"]}, ["y"], {"w": np.eye(5, dtype=np.float32)})
    content.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    data, good, bad = content.SerializeToString(), np.array([4, 0, 2]), np.array([4, 9, 2])
    answer = kept(data, {"places": good})
    loaded = load(data)
    assert same(loaded.run({"places": good}), answer)
    told = []
    for each in (loaded, load(content)):
        with pytest.raises(IndexRangeError) as error:
            each.run({"places": bad})
        told.append(str(error.value))
    assert told[0] == told[1]
    assert isinstance(program_of(loaded), CachedProgram)
    assert same(loaded.run({"places": good}), answer)


def test_who_looks_at_commands_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(small(), {"x": X})
    loaded = load(small())
    assert same(loaded.run({"x": X}), first)
    with nnc.profile() as profile:
        assert same(loaded.run({"x": X}), first)
    assert "conv" in str(profile.tables()).lower()
    monkeypatch.setattr(SETTINGS, "debug", True)
    checked = load(small())
    assert same(checked.run({"x": X}), first)
    assert isinstance(program_of(checked), OnnxProgram)


def test_threads_may_ask_at_once() -> None:
    first = kept(small(), {"x": X})
    loaded, answers = load(small()), list[dict[str, Any]]()
    threads = [threading.Thread(target=lambda: answers.append(loaded.run({"x": X}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(same(answer, first) for answer in answers)
    assert isinstance(program_of(loaded), CachedProgram)


def test_an_arena_is_shared_with_programs_that_were_planned() -> None:
    alone = kept(small(), {"x": X})
    larger = RANDOM.standard_normal((4, 3, 24, 24)).astype(np.float32)
    answer = load(onnx.load_from_string(small())).run({"x": larger})
    loaded = load(small())
    for _ in range(3):
        assert same(loaded.run({"x": X}), alone)
        assert same(loaded.run({"x": larger}), answer)


def test_files_beside_the_file_and_messages_are_not_kept(tmp_path: Path, folder: Path) -> None:
    message = onnx.load_from_string(small())
    onnx.save(message, tmp_path / "external.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    for source in (tmp_path / "external.onnx", onnx.load_from_string(small())):
        loaded = load(source)
        assert loaded.file.digest == ""
        loaded.run({"x": X})
    assert entries(folder) == []
