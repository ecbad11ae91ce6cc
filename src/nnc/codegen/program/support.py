"""memcpy, memmove and memset for machines without a C library: what compilers expect to be there.

    void *memcpy(void *target, const void *source, size_t bytes)

WebAssembly has no product of more than 64 bits either, which LLVM asks for where it sums up the counts of a loop.

Whoever has a C library leaves this object out: in an archive it is taken where nobody else has these names.
"""

from __future__ import annotations

from nnc.codegen.ir.target import TargetDescription

_COPY = """define ptr @NAME(ptr %target, ptr %source, iSIZE %bytes) #0 {
start:
  BACKWARD
forward:
  %more = icmp ne iSIZE %bytes, 0
  br i1 %more, label %byte, label %end
byte:
  %at = phi iSIZE [ 0, %forward ], [ %next, %byte ]
  %from = getelementptr i8, ptr %source, iSIZE %at
  %to = getelementptr i8, ptr %target, iSIZE %at
  %value = load volatile i8, ptr %from
  store i8 %value, ptr %to
  %next = add iSIZE %at, 1
  %again = icmp ult iSIZE %next, %bytes
  br i1 %again, label %byte, label %end
end:
  ret ptr %target
}
"""
_BACKWARD = """%before = icmp ult ptr %source, %target
  br i1 %before, label %backward, label %forward
backward:
  %left = phi iSIZE [ %bytes, %start ], [ %rest, %last ]
  %some = icmp ne iSIZE %left, 0
  br i1 %some, label %last, label %end
last:
  %rest = sub iSIZE %left, 1
  %source_at = getelementptr i8, ptr %source, iSIZE %rest
  %target_at = getelementptr i8, ptr %target, iSIZE %rest
  %moved = load volatile i8, ptr %source_at
  store i8 %moved, ptr %target_at
  br label %backward"""
_SET = """define ptr @memset(ptr %target, i32 %value, iSIZE %bytes) #0 {
start:
  %byte_value = trunc i32 %value to i8
  %more = icmp ne iSIZE %bytes, 0
  br i1 %more, label %byte, label %end
byte:
  %at = phi iSIZE [ 0, %start ], [ %next, %byte ]
  %to = getelementptr i8, ptr %target, iSIZE %at
  store volatile i8 %byte_value, ptr %to
  %next = add iSIZE %at, 1
  %again = icmp ult iSIZE %next, %bytes
  br i1 %again, label %byte, label %end
end:
  ret ptr %target
}
"""
# result = a · b of 128 bits each, in parts of 32 bits: a = 2^32 · a1 + a0 of the lower halves.
_PRODUCT = """define void @__multi3(ptr %result, i64 %a, i64 %a_high, i64 %b, i64 %b_high) #0 {
  %a0 = and i64 %a, 4294967295
  %b0 = and i64 %b, 4294967295
  %a1 = lshr i64 %a, 32
  %b1 = lshr i64 %b, 32
  %low = mul i64 %a0, %b0
  %cross_a = mul i64 %a1, %b0
  %cross_b = mul i64 %a0, %b1
  %top = mul i64 %a1, %b1
  %carried = lshr i64 %low, 32
  %part_a = and i64 %cross_a, 4294967295
  %part_b = and i64 %cross_b, 4294967295
  %some = add i64 %carried, %part_a
  %middle = add i64 %some, %part_b
  %low_half = and i64 %low, 4294967295
  %middle_half = shl i64 %middle, 32
  %lower = or i64 %low_half, %middle_half
  %rest_a = lshr i64 %cross_a, 32
  %rest_b = lshr i64 %cross_b, 32
  %rest_m = lshr i64 %middle, 32
  %sum_a = add i64 %top, %rest_a
  %sum_b = add i64 %sum_a, %rest_b
  %sum_m = add i64 %sum_b, %rest_m
  %outer_a = mul i64 %a, %b_high
  %outer_b = mul i64 %a_high, %b
  %outer = add i64 %outer_a, %outer_b
  %upper = add i64 %sum_m, %outer
  store i64 %lower, ptr %result
  %at = getelementptr i64, ptr %result, i32 1
  store i64 %upper, ptr %at
  ret void
}
"""


def support_functions(target: TargetDescription) -> tuple[str, ...]:
    """The functions, of memory byte by byte: `volatile` keeps LLVM from making calls of themselves of them."""
    functions = (
        _COPY.replace("NAME", "memcpy").replace("BACKWARD", "br label %forward"),
        _COPY.replace("NAME", "memmove").replace("BACKWARD", _BACKWARD),
        _SET,
        *([_PRODUCT] if target.triple.startswith("wasm") else []),
    )
    return tuple(text.replace("iSIZE", f"i{8 * target.pointer_bytes}") for text in functions)


def write_support(target: TargetDescription) -> str:
    """Their text as a module."""
    text = "\n".join(support_functions(target))
    return f'target triple = "{target.triple}"\n{text}\nattributes #0 = {{ nounwind "no-builtins" }}\n'
