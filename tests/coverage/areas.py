"""The core whose every branch counts: files, the tests that mirror them, and the share of branches that must run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CORE, ALL = 95.0, 100.0


@dataclass(frozen=True, slots=True)
class Area:
    """Sources below `src/nnc`, tests below `tests`, and percent of branches."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    goal: float = CORE


AREAS: Mapping[str, Area] = {
    "planning": Area(("planning/*",), ("planning",)),
    "plans of programs": Area(
        ("symbolic/compiler/place/*", "symbolic/compiler/order/*", "symbolic/compiler/check/*"),
        ("symbolic/compiler", "symbolic/test_while.py", "symbolic/test_loop_cases.py", "symbolic/test_case_of.py"),
    ),
    "gradients": Area(
        ("symbolic/gradient.py", "symbolic/forward.py", "symbolic/control/*", "symbolic/accumulate.py",
         "dynamic/transforms/differentiation.py", "concrete/tape.py"),
        ("symbolic/test_gradient.py", "symbolic/test_forward.py", "symbolic/test_control_gradient.py",
         "symbolic/test_while.py", "symbolic/test_case_of.py", "symbolic/test_loop_cases.py",
         "symbolic/test_bad_input.py", "dynamic/transforms/test_differentiation.py", "dynamic/test_graph.py",
         "dynamic/transforms/test_control_flow.py", "symbolic/test_loop_patterns.py",
         "concrete/test_tape.py", "concrete/test_multiview.py", "concrete/test_case_of.py", "concrete/test_while.py",
         "concrete/test_autotune.py"),
    ),
    "checks of files": Area(
        ("core/values/serialize.py", "core/values/exchange.py", "onnx/file.py", "onnx/stored/external.py",
         "onnx/stored/message.py", "symbolic/serialize.py", "planning/read.py", "nn/files/checkpoint.py",
         "nn/files/files.py"),
        ("core/values/test_serialize.py", "core/values/test_exchange.py", "onnx/test_file.py",
         "symbolic/test_serialize.py", "planning/test_read.py", "nn/files/test_checkpoint.py", "nn/files/test_files.py",
         "nn/test_partial_load.py", "nn/files/test_pretrained.py", "fuzz/files"),
        ALL,
    ),
    "weights of others": Area(
        ("nn/model/load_report.py", "nn/files/torch_names.py", "nn/files/pretrained.py", "nn/files/model_spec.py",
         "onnx/importer.py", "onnx/weights.py"),
        ("nn/files/test_torch_names.py", "nn/files/test_pretrained.py", "nn/files/test_model_spec.py",
         "nn/test_partial_load.py", "onnx/test_file.py", "onnx/test_runner.py", "onnx/test_weights.py",
         "onnx/test_stages.py", "onnx/test_rows.py", "onnx/test_attributes.py", "onnx/test_loops.py",
         "onnx/test_contributed.py", "onnx/test_imports.py", "onnx/test_importer.py", "onnx/written/test_saving.py",
         "nn/files/test_files.py"),
    ),
}  # fmt: skip
