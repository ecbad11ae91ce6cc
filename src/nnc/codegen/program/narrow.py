"""Quotients of 64 bits, and floats of such integers, for processors of 32: LLVM calls a compiler's library for them.

    q = a udiv b:   for k = clz(b) - clz(a) down to 0: if a >= b << k: a -= b << k, q += 1 << k
    float(a):       the bits of a from its highest on, rounded to the nearest, ties to even, behind the exponent

A quotient takes as many turns as it has bits: those of indices have few. Signed ones are made of these. A program has
functions of its own in the place of those instructions.
"""

from __future__ import annotations

import re

# Instructions on two registers or a register and a number, by name; powers of two are shifts.
_QUOTIENT = re.compile(r"= (udiv|urem|sdiv|srem) i64 (\S+), (\S+)$", re.MULTILINE)
_FLOAT = re.compile(r"= (sitofp|uitofp) i64 (\S+) to (float|double)$", re.MULTILINE)
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


# By the type: its bits, those of the fraction, and the exponent of 2^63.
_FLOATS = {"float": (32, 23, 127 + 63), "double": (64, 52, 1023 + 63)}
_TO_FLOAT = """
define internal TYPE @nnc_uitofp_TYPE(i64 %a) #0 {
entry:
  %zeros = call i64 @llvm.ctlz.i64(i64 %a, i1 false)
  %shift = and i64 %zeros, 63
  %norm = shl i64 %a, %shift
  %kept = lshr i64 %norm, CUT
  %rest = and i64 %norm, MASK
  %above = icmp ugt i64 %rest, HALF
  %tie = icmp eq i64 %rest, HALF
  %odd = trunc i64 %kept to i1
  %even = and i1 %tie, %odd
  %up = or i1 %above, %even
  %one = zext i1 %up to i64
  %fraction = and i64 %kept, FRACTION
  %exponent = sub i64 TOP, %zeros
  %high = shl i64 %exponent, BITS
  %both = or i64 %high, %fraction
  %whole = add i64 %both, %one
  %none = icmp eq i64 %a, 0
  %pattern = select i1 %none, i64 0, i64 %whole
  NARROWED
  ret TYPE %result
}
define internal TYPE @nnc_sitofp_TYPE(i64 %a) #0 {
  %plus = call i64 @llvm.abs.i64(i64 %a, i1 false)
  %float = call TYPE @nnc_uitofp_TYPE(i64 %plus)
  %negative = icmp slt i64 %a, 0
  %minus = fneg TYPE %float
  %signed = select i1 %negative, TYPE %minus, TYPE %float
  ret TYPE %signed
}
"""


def with_own_arithmetic(text: str) -> str:
    """A module's text with calls of functions of its own in the place of these instructions."""
    replaced = _FLOAT.sub(r"= call \3 @nnc_\1_\3(i64 \2)", _QUOTIENT.sub(_call, text))
    if "@nnc_" not in replaced:
        return text
    functions = _FUNCTIONS + "".join(_to_float(kind) for kind in _FLOATS if f"_{kind}(" in replaced)
    for line in re.findall(r"^declare .*$", functions, re.MULTILINE):
        name = line.partition("@")[2].partition("(")[0]
        if f"@{name}(" in text:
            functions = functions.replace(line + "\n", "")
    return f"{replaced}{functions}"


def _to_float(kind: str) -> str:
    width, fraction, top = _FLOATS[kind]
    cut = 63 - fraction
    narrowed = f"%result = bitcast i64 %pattern to {kind}"
    if width < 64:
        narrowed = f"%low = trunc i64 %pattern to i{width}\n  %result = bitcast i{width} %low to {kind}"
    words = {
        "TYPE": kind, "CUT": cut, "MASK": (1 << cut) - 1, "HALF": 1 << cut - 1, "FRACTION": (1 << fraction) - 1,
        "TOP": top, "BITS": fraction, "NARROWED": narrowed,
    }  # fmt: skip
    text = _TO_FLOAT
    for word, content in words.items():
        text = text.replace(word, str(content))
    return text


def _call(match: re.Match[str]) -> str:
    kind, left, right = match[1], match[2], match[3]
    if right.isdigit() and int(right).bit_count() == 1:
        return match[0]
    return f"= call i64 @nnc_{kind}(i64 {left}, i64 {right})"
