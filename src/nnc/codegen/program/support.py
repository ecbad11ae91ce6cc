"""memcpy, memmove and memset for machines without a C library: what compilers expect to be there.

    void *memcpy(void *target, const void *source, size_t bytes)

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


def support_functions(target: TargetDescription) -> tuple[str, ...]:
    """The three functions, byte by byte: `volatile` keeps LLVM from making calls of themselves of them."""
    functions = (
        _COPY.replace("NAME", "memcpy").replace("BACKWARD", "br label %forward"),
        _COPY.replace("NAME", "memmove").replace("BACKWARD", _BACKWARD),
        _SET,
    )
    return tuple(text.replace("iSIZE", f"i{8 * target.pointer_bytes}") for text in functions)


def write_support(target: TargetDescription) -> str:
    """Their text as a module."""
    text = "\n".join(support_functions(target))
    return f'target triple = "{target.triple}"\n{text}\nattributes #0 = {{ nounwind "no-builtins" }}\n'
