"""The instructions of AMX in NumPy, for kernels that call them here instead: each thread has its own registers.

They fault, and say so in `faults`, where the processor would: no configuration, sizes that do not fit, a register that
is used as both. A configuration that is still there at the end shows in `left`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident

import ml_dtypes
import numpy as np
from tests.backends.llvm.harness import Array

REGISTERS, ROWS, ROW_BYTES = 8, 16, 64
CALL = re.compile(r"@llvm\.x86\.(\w+)\((.*)\)")
BYTES = {"u": np.uint8, "s": np.int8}
KINDS = {"i8": ctypes.c_int8, "ptr": ctypes.c_void_p, "i64": ctypes.c_int64}
MOVE = ("i8", "ptr", "i64")
OPERANDS = {
    "ldtilecfg": ("ptr",), "tilerelease": (), "tilezero": ("i8",), "tileloadd64": MOVE, "tilestored64": MOVE,
    **{f"tdp{name}": ("i8",) * 3 for name in ("bf16ps", "bssd", "busd", "bsud", "buud")},
}  # fmt: skip


@dataclass
class Registers:
    """Of one thread: rows and bytes of a row of each register, and what is in them."""

    sizes: list[tuple[int, int]]
    content: Array


@dataclass
class MatrixMachine:
    """Functions that native code calls, and what they found."""

    faults: list[str] = field(default_factory=list)
    products: int = 0
    left: dict[int, Registers] = field(default_factory=dict)
    _functions: dict[str, object] = field(default_factory=dict)

    def instead(self, source: str) -> str:
        """IR text that calls this machine."""
        return "\n".join(map(self._line, source.splitlines())) + "\n"

    def _line(self, line: str) -> str:
        found = CALL.search(line)
        if found is None or found[1] not in OPERANDS:
            return line
        return "" if line.startswith("declare") else line.replace(f"@llvm.x86.{found[1]}", self._address(found[1]))

    def _address(self, name: str) -> str:
        if name not in self._functions:
            kind = ctypes.CFUNCTYPE(None, *(KINDS[one] for one in OPERANDS[name]))
            self._functions[name] = kind(self._guarded(name))
        value = ctypes.cast(self._functions[name], ctypes.c_void_p).value  # type: ignore[arg-type]
        return f"inttoptr (i64 {value} to ptr)"

    def _guarded(self, name: str) -> Callable[..., None]:
        def run(*operands: int) -> None:
            try:
                if name.startswith("tdp"):
                    self._product(name.removeprefix("tdp"), *operands)
                else:
                    getattr(self, name)(*operands)
            except (KeyError, ValueError, AssertionError, Warning) as error:
                self.faults.append(f"{name}{operands}: {error!r}")

        return run

    @property
    def _own(self) -> Registers:
        return self.left[get_ident()]

    def ldtilecfg(self, place: int) -> None:
        """Palette 1, bytes of rows from byte 16 on, rows from byte 48 on."""
        text = ctypes.string_at(place, 64)
        bytes_of_rows, rows = np.frombuffer(text, np.uint16, 16, 16), np.frombuffer(text, np.uint8, 16, 48)
        assert text[0] == 1
        assert not any(text[1:16])
        assert not bytes_of_rows[REGISTERS:].any()
        assert not rows[REGISTERS:].any()
        assert rows.max() <= ROWS
        assert bytes_of_rows.max() <= ROW_BYTES
        sizes = [(int(count), int(size)) for count, size in zip(rows, bytes_of_rows, strict=True)]
        self.left[get_ident()] = Registers(sizes[:REGISTERS], np.zeros((REGISTERS, ROWS, ROW_BYTES), np.uint8))

    def tilerelease(self) -> None:
        """No configuration."""
        del self.left[get_ident()]

    def tilezero(self, register: int) -> None:
        """All bits 0."""
        self._own.content[register] = 0

    def tileloadd64(self, register: int, place: int, step: int) -> None:
        """Rows that are `step` bytes apart."""
        rows, size = self._own.sizes[register]
        self._own.content[register] = 0
        for row in range(rows):
            self._own.content[register, row, :size] = np.frombuffer(
                ctypes.string_at(place + row * step, size), np.uint8
            )

    def tilestored64(self, register: int, place: int, step: int) -> None:
        """The same, to memory."""
        rows, size = self._own.sizes[register]
        for row in range(rows):
            ctypes.memmove(place + row * step, self._own.content[register, row, :size].tobytes(), size)

    def _product(self, kind: str, total: int, left: int, right: int) -> None:
        """total += left · right"""
        own = self._own
        (rows, size), (left_rows, left_size), (words, right_size) = (own.sizes[one] for one in (total, left, right))
        assert len({total, left, right}) == 3
        assert (left_rows, left_size, right_size) == (rows, 4 * words, size)
        self.products += 1
        a, b = own.content[left, :rows, :left_size], own.content[right, :words, :right_size]
        sums = np.ascontiguousarray(own.content[total, :rows, :size])
        found = _pairs(sums, a, b) if kind == "bf16ps" else _quads(sums, a, b, kind)
        own.content[total, :rows, :size] = found.view(np.uint8)


def _flushed(values: Array) -> Array:
    """Denormals are 0."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def _pairs(sums: Array, a: Array, b: Array) -> Array:
    """Even and odd steps apart, in f32; then their sum."""
    left, right = (_flushed(np.ascontiguousarray(one).view(ml_dtypes.bfloat16).astype(np.float32)) for one in (a, b))
    parts = []
    with np.errstate(all="ignore"):
        for half in (0, 1):
            part = np.zeros((left.shape[0], right.shape[1] // 2), np.float32)
            for word in range(right.shape[0]):
                part = _flushed(part + left[:, 2 * word + half, None] * right[word, None, half::2])
            parts.append(part)
        return _flushed(sums.view(np.float32) + _flushed(parts[0] + parts[1]))


def _quads(sums: Array, a: Array, b: Array, kind: str) -> Array:
    """Modulo 2^32."""
    left = np.ascontiguousarray(a).view(BYTES[kind[1]]).astype(np.int64).reshape(a.shape[0], -1, 4)
    right = np.ascontiguousarray(b).view(BYTES[kind[2]]).astype(np.int64).reshape(b.shape[0], -1, 4)
    total = sums.view(np.int32) + np.einsum("ipe,pje->ij", left, right)
    return total.astype(np.int32)
