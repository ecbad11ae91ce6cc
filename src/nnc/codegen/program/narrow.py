"""Quotients of 64 bits for processors of 32: LLVM calls a compiler's library for them, which a program must not need.

    q = a udiv b:   for k = clz(b) - clz(a) down to 0: if a >= b << k: a -= b << k, q += 1 << k

As many turns as the quotient has bits: those of indices have few. Signed ones are made of these.
"""

from __future__ import annotations

import re

# Instructions on two registers or a register and a number, by name; powers of two are shifts.
_QUOTIENT = re.compile(r"= (udiv|urem|sdiv|srem) i64 (\S+), (\S+)$", re.MULTILINE)
_FUNCTIONS = """
declare i64 @llvm.ctlz.i64(i64, i1 immarg)
declare i64 @llvm.abs.i64(i64, i1 immarg)
define internal i64 @nnc_udiv(i64 %a, i64 %b) #0 {
entry:
  %fits = icmp uge i64 %a, %b
  br i1 %fits, label %begin, label %none
none:
  ret i64 0
begin:
  %zeros_a = call i64 @llvm.ctlz.i64(i64 %a, i1 false)
  %zeros_b = call i64 @llvm.ctlz.i64(i64 %b, i1 false)
  %most = sub i64 %zeros_b, %zeros_a
  br label %turn
turn:
  %k = phi i64 [ %most, %begin ], [ %less, %turn ]
  %rest = phi i64 [ %a, %begin ], [ %left, %turn ]
  %q = phi i64 [ 0, %begin ], [ %more, %turn ]
  %part = shl i64 %b, %k
  %holds = icmp uge i64 %rest, %part
  %taken = select i1 %holds, i64 %part, i64 0
  %left = sub i64 %rest, %taken
  %bit = zext i1 %holds to i64
  %double = shl i64 %q, 1
  %more = or i64 %double, %bit
  %less = sub i64 %k, 1
  %again = icmp sge i64 %less, 0
  br i1 %again, label %turn, label %end
end:
  ret i64 %more
}
define internal i64 @nnc_urem(i64 %a, i64 %b) #0 {
  %q = call i64 @nnc_udiv(i64 %a, i64 %b)
  %part = mul i64 %q, %b
  %rest = sub i64 %a, %part
  ret i64 %rest
}
define internal i64 @nnc_sdiv(i64 %a, i64 %b) #0 {
  %plus_a = call i64 @llvm.abs.i64(i64 %a, i1 false)
  %plus_b = call i64 @llvm.abs.i64(i64 %b, i1 false)
  %q = call i64 @nnc_udiv(i64 %plus_a, i64 %plus_b)
  %signs = xor i64 %a, %b
  %negative = icmp slt i64 %signs, 0
  %minus = sub i64 0, %q
  %signed = select i1 %negative, i64 %minus, i64 %q
  ret i64 %signed
}
define internal i64 @nnc_srem(i64 %a, i64 %b) #0 {
  %q = call i64 @nnc_sdiv(i64 %a, i64 %b)
  %part = mul i64 %q, %b
  %rest = sub i64 %a, %part
  ret i64 %rest
}
"""


def with_own_quotients(text: str) -> str:
    """A module's text with calls of functions of its own in the place of quotients of 64 bits."""
    replaced, count = _QUOTIENT.subn(_call, text)
    functions = _FUNCTIONS
    for line in re.findall(r"^declare .*$", _FUNCTIONS, re.MULTILINE):
        name = line.partition("@")[2].partition("(")[0]
        if f"@{name}(" in text:
            functions = functions.replace(line + "\n", "")
    return f"{replaced}{functions}" if count and "@nnc_" in replaced else text


def _call(match: re.Match[str]) -> str:
    kind, left, right = match[1], match[2], match[3]
    if right.isdigit() and int(right).bit_count() == 1:
        return match[0]
    return f"= call i64 @nnc_{kind}(i64 {left}, i64 {right})"
