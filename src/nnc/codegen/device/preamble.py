"""What stands around the functions of a kernel: for CUDA how threads exchange, for both the entries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from nnc.codegen.device.bounds import BOUNDED, BOUNDED_TEXT
from nnc.codegen.device.text import Kind
from nnc.codegen.device.warpgroups import WarpgroupProduct
from nnc.codegen.ir.target import TargetDescription

PTX_TRIPLE = "nvptx64-nvidia-cuda"
# Without it LLVM would not know how large pointers are before it writes code.
PTX_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
# Threads of a group: enough for several registers, few enough that the last groups of a launch are not alone for long.
GROUP_THREADS = 128
# A larger group must say so, for its registers to suffice.
PLAIN_THREADS = 256
ENTRY_ARGUMENTS = "ptr %args, i64 %first, i64 %items, ptr %scratch, i64 %scratch_bytes"

# Lanes of a warp exchange words of 32 bits. Wider numbers are two words, narrower ones one.
_SHUFFLE_WORD = """define internal i32 @nnc.shuffle.i32(i32 %x, i32 %lane) #0 {
%y = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %x, i32 %lane, i32 31)
ret i32 %y
}"""
_SHUFFLE_LONG = """define internal i64 @nnc.shuffle.i64(i64 %x, i32 %lane) #0 {
%low = trunc i64 %x to i32
%high = lshr i64 %x, 32
%upper = trunc i64 %high to i32
%a = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %low, i32 %lane, i32 31)
%b = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %upper, i32 %lane, i32 31)
%c = zext i32 %a to i64
%d = zext i32 %b to i64
%e = shl i64 %d, 32
%y = or i64 %c, %e
ret i64 %y
}"""


def _through(name: str, kind: str, word: str, there: Sequence[str], back: Sequence[str]) -> str:
    """A shuffle of numbers that become words of another type, and those again."""
    lines = [*there, f"%z = call {word} @nnc.shuffle.{word}({word} %w, i32 %lane)", *back, f"ret {kind} %y"]
    return f"define internal {kind} @nnc.shuffle.{name}({kind} %x, i32 %lane) #0 {{\n" + "\n".join(lines) + "\n}"


_FOUR_SUMS = "{float, float, float, float}"
_MULTIPLY = "llvm.nvvm.mma.m16n8k16.row.col."


def _multiply(name: str, intrinsic: str, word: str) -> str:
    """A product of 16 x 16 and 16 x 8 elements that is added to four sums of each thread."""
    lines = []
    given = []
    for letter in "abcdef":
        if word != "i32":
            lines.append(f"%{letter}w = bitcast i32 %{letter} to {word}")
        given.append(f"{word} %{letter}{'w' if word != 'i32' else ''}")
    lines += [f"%t{k} = load float, ptr %p{k}" for k in range(4)]
    given += [f"float %t{k}" for k in range(4)]
    lines.append(f"%m = call {_FOUR_SUMS} @llvm.nvvm.mma.m16n8k16.row.col.{intrinsic}({', '.join(given)})")
    for k in range(4):
        lines += [f"%y{k} = extractvalue {_FOUR_SUMS} %m, {k}", f"store float %y{k}, ptr %p{k}"]
    arguments = ", ".join([*(f"i32 %{letter}" for letter in "abcdef"), *(f"ptr %p{k}" for k in range(4))])
    return f"define internal void @nnc.multiply.{name}({arguments}) #0 {{\n" + "\n".join([*lines, "ret void", "}"])


def _pair(name: str, kind: str) -> tuple[str, tuple[str, ...]]:
    """Two numbers of 16 bits as a word, the first in its low half."""
    intrinsic = f"llvm.nvvm.ff2{name}x2.rn"
    text = (
        f"define internal i32 @nnc.pair.{name}(float %x, float %z) #0 {{\n"
        f"%p = call <2 x {kind}> @{intrinsic}(float %z, float %x)\n%y = bitcast <2 x {kind}> %p to i32\nret i32 %y\n}}"
    )
    return text, (intrinsic,)


def _step(name: str, intrinsic: str, number: int | None = None, kind: str = "i32") -> tuple[str, tuple[str, ...]]:
    """A function that is one call without a result, and what it calls."""
    given = "" if number is None else f"{kind} {number}"
    text = f"define internal void @nnc.{name}() #0 {{\ncall void @{intrinsic}({given})\nret void\n}}"
    return text, (intrinsic,)


# The high word of a product by halves: (a·2³² + b) (c·2³² + d), of which what is below 2⁶⁴ only carries.
_HIGH_PRODUCT = """define internal i64 @nnc.high.product(i64 %x, i64 %z) #0 {
entry:
%a = lshr i64 %x, 32
%b = and i64 %x, 4294967295
%c = lshr i64 %z, 32
%d = and i64 %z, 4294967295
%ac = mul i64 %a, %c
%ad = mul i64 %a, %d
%bc = mul i64 %b, %c
%bd = mul i64 %b, %d
%low = lshr i64 %bd, 32
%adl = and i64 %ad, 4294967295
%bcl = and i64 %bc, 4294967295
%s = add i64 %low, %adl
%t = add i64 %s, %bcl
%carry = lshr i64 %t, 32
%adh = lshr i64 %ad, 32
%bch = lshr i64 %bc, 32
%u = add i64 %ac, %adh
%v = add i64 %u, %bch
%y = add i64 %v, %carry
ret i64 %y
}"""
# Functions as text, for devices that have them not by themselves.
_TEXTS = {"nnc.high.product": _HIGH_PRODUCT, BOUNDED: BOUNDED_TEXT}
# By name: the text, and the functions that it calls.
_PTX_FUNCTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    BOUNDED: (BOUNDED_TEXT, ("nnc.pointer",)),
    "nnc.lane": (
        "define internal i32 @nnc.lane() #0 {\n%t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n%y = and i32 %t, 31\n"
        "ret i32 %y\n}",
        ("llvm.nvvm.read.ptx.sreg.tid.x",),
    ),
    "nnc.any": (
        "define internal i1 @nnc.any(i1 %x) #0 {\n%y = call i1 @llvm.nvvm.vote.any.sync(i32 -1, i1 %x)\nret i1 %y\n}",
        ("llvm.nvvm.vote.any.sync",),
    ),
    "nnc.thread": (
        "define internal i32 @nnc.thread() #0 {\n%y = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\nret i32 %y\n}",
        ("llvm.nvvm.read.ptx.sreg.tid.x",),
    ),
    "nnc.subgroup": (
        "define internal i32 @nnc.subgroup() #0 {\n%t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
        "%y = lshr i32 %t, 5\nret i32 %y\n}",
        ("llvm.nvvm.read.ptx.sreg.tid.x",),
    ),
    "nnc.wait": (
        "define internal void @nnc.wait() #0 {\ncall void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\nret void\n}",
        ("llvm.nvvm.barrier.cta.sync.aligned.all",),
    ),
    "nnc.load.aligned": (
        "define internal i32 @nnc.load.aligned(ptr %x) #0 {\n%y = load i32, ptr %x, align 16\nret i32 %y\n}",
        (),
    ),
    "nnc.store.aligned": (
        "define internal void @nnc.store.aligned(ptr %x, i32 %a, i32 %b, i32 %c, i32 %d) #0 {\n"
        "%p = insertelement <4 x i32> poison, i32 %a, i64 0\n%q = insertelement <4 x i32> %p, i32 %b, i64 1\n"
        "%r = insertelement <4 x i32> %q, i32 %c, i64 2\n%s = insertelement <4 x i32> %r, i32 %d, i64 3\n"
        "store <4 x i32> %s, ptr %x, align 16\nret void\n}",
        (),
    ),
    **{f"nnc.pair.{name}": _pair(name, kind) for name, kind in (("bf16", "bfloat"), ("f16", "half"))},
    "nnc.power": (
        "define internal float @nnc.power(float %x) #0 {\n%y = call float @llvm.nvvm.ex2.approx.f32(float %x)\n"
        "ret float %y\n}",
        ("llvm.nvvm.ex2.approx.f32",),
    ),
    "nnc.copies.seal": _step("copies.seal", "llvm.nvvm.cp.async.commit.group"),
    **{f"nnc.copies.wait.{n}": _step(f"copies.wait.{n}", "llvm.nvvm.cp.async.wait.group", n) for n in range(4)},
    "nnc.copies.share": (
        "define internal void @nnc.copies.share() #0 {\n"
        'call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()\nret void\n}',
        (),
    ),
    "nnc.products.begin": _step("products.begin", "llvm.nvvm.wgmma.fence.sync.aligned"),
    "nnc.products.seal": _step("products.seal", "llvm.nvvm.wgmma.commit_group.sync.aligned"),
    **{
        f"nnc.products.wait.{n}": _step(f"products.wait.{n}", "llvm.nvvm.wgmma.wait_group.sync.aligned", n, "i64")
        for n in range(2)
    },
    "nnc.multiply.bf16": (_multiply("bf16", "bf16", "i32"), (f"{_MULTIPLY}bf16",)),
    "nnc.multiply.f16": (_multiply("f16", "f32.f32", "<2 x half>"), (f"{_MULTIPLY}f32.f32",)),
    "nnc.meet": (
        "define internal void @nnc.meet() #0 {\ncall void @llvm.nvvm.bar.warp.sync(i32 -1)\nret void\n}",
        ("llvm.nvvm.bar.warp.sync",),
    ),
    # What the table of arguments names is memory of the device: LLVM need not ask of which kind.
    "nnc.pointer": (
        "define internal ptr @nnc.pointer(ptr %x) #0 {\n%g = load ptr addrspace(1), ptr %x, align 8\n"
        "%y = addrspacecast ptr addrspace(1) %g to ptr\nret ptr %y\n}",
        (),
    ),
    "nnc.bf16.f32": (
        "define internal i16 @nnc.bf16.f32(float %x) #0 {\n%n = call bfloat @llvm.nvvm.f2bf16.rn(float %x)\n"
        "%y = bitcast bfloat %n to i16\nret i16 %y\n}",
        ("llvm.nvvm.f2bf16.rn",),
    ),
    "nnc.ratio.f32": (
        "define internal float @nnc.ratio.f32(float %x, float %z) #0 {\n"
        "%y = call float @llvm.nvvm.div.full(float %x, float %z)\nret float %y\n}",
        ("llvm.nvvm.div.full",),
    ),
    "nnc.high.product": (
        "define internal i64 @nnc.high.product(i64 %a, i64 %b) #0 {\n%x = zext i64 %a to i128\n"
        "%z = zext i64 %b to i128\n%p = mul i128 %x, %z\n"
        "%s = lshr i128 %p, 64\n%y = trunc i128 %s to i64\nret i64 %y\n}",
        (),
    ),
    "nnc.shuffle.i32": (_SHUFFLE_WORD, ("llvm.nvvm.shfl.sync.idx.i32",)),
    "nnc.shuffle.i64": (_SHUFFLE_LONG, ("llvm.nvvm.shfl.sync.idx.i32",)),
    "nnc.shuffle.f32": (
        _through("f32", "float", "i32", ["%w = bitcast float %x to i32"], ["%y = bitcast i32 %z to float"]),
        ("nnc.shuffle.i32",),
    ),
    "nnc.shuffle.f64": (
        _through("f64", "double", "i64", ["%w = bitcast double %x to i64"], ["%y = bitcast i64 %z to double"]),
        ("nnc.shuffle.i64",),
    ),
    "nnc.shuffle.f16": (
        _through(
            "f16", "half", "i32", ["%v = bitcast half %x to i16", "%w = zext i16 %v to i32"],
            ["%u = trunc i32 %z to i16", "%y = bitcast i16 %u to half"],
        ),
        ("nnc.shuffle.i32",),
    ),
    **{
        f"nnc.shuffle.{kind}": (
            _through(kind, kind, "i32", [f"%w = zext {kind} %x to i32"], [f"%y = trunc i32 %z to {kind}"]),
            ("nnc.shuffle.i32",),
        )
        for kind in ("i16", "i8", "i1")
    },
    "nnc.shuffle.ptr": (
        _through("ptr", "ptr", "i64", ["%w = ptrtoint ptr %x to i64"], ["%y = inttoptr i64 %z to ptr"]),
        ("nnc.shuffle.i64",),
    ),
}  # fmt: skip
_PTX_DECLARATIONS = {
    **{
        f"llvm.nvvm.read.ptx.sreg.{name}.x": f"declare i32 @llvm.nvvm.read.ptx.sreg.{name}.x()"
        for name in ("tid", "ntid", "ctaid", "nctaid")
    },
    "llvm.nvvm.vote.any.sync": "declare i1 @llvm.nvvm.vote.any.sync(i32, i1)",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)",
    **{
        f"{_MULTIPLY}{kind}": f"declare {_FOUR_SUMS} @{_MULTIPLY}{kind}({', '.join([*[word] * 6, *['float'] * 4])})"
        for kind, word in (("bf16", "i32"), ("f32.f32", "<2 x half>"))
    },
    "llvm.nvvm.f2bf16.rn": "declare bfloat @llvm.nvvm.f2bf16.rn(float)",
    "llvm.nvvm.div.full": "declare float @llvm.nvvm.div.full(float, float)",
    "llvm.nvvm.ff2bf16x2.rn": "declare <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float, float)",
    "llvm.nvvm.ff2f16x2.rn": "declare <2 x half> @llvm.nvvm.ff2f16x2.rn(float, float)",
    "llvm.nvvm.ex2.approx.f32": "declare float @llvm.nvvm.ex2.approx.f32(float)",
    "llvm.nvvm.cp.async.commit.group": "declare void @llvm.nvvm.cp.async.commit.group()",
    "llvm.nvvm.cp.async.wait.group": "declare void @llvm.nvvm.cp.async.wait.group(i32)",
    "llvm.nvvm.wgmma.fence.sync.aligned": "declare void @llvm.nvvm.wgmma.fence.sync.aligned()",
    "llvm.nvvm.wgmma.commit_group.sync.aligned": "declare void @llvm.nvvm.wgmma.commit_group.sync.aligned()",
    "llvm.nvvm.wgmma.wait_group.sync.aligned": "declare void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64)",
    "llvm.nvvm.bar.warp.sync": "declare void @llvm.nvvm.bar.warp.sync(i32)",
    "llvm.nvvm.shfl.sync.idx.i32": "declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)",
}
_NUMBER = """%t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
%n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
%g = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
%c = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
%tw = zext i32 %t to i64
%nw = zext i32 %n to i64
%gw = zext i32 %g to i64
%cw = zext i32 %c to i64
%before = mul nuw nsw i64 %nw, %gw
%thread = add nuw nsw i64 %before, %tw
%threads = mul nuw nsw i64 %nw, %cw
"""
# Arrays in the memory of a group, which lie in a space of addresses of their own. Of one that is larger than what a
# module may have there the launch says the size.
STATIC_NEAR_BYTES = 48 * 1024
_NEAR_ARRAY = "@{name} = internal addrspace(3) global {array} undef, align 16"
_LARGE_NEAR_ARRAY = "@{name} = external addrspace(3) global [0 x {kind}], align 1024"
_NEAR = """define internal {kind} @nnc.near.load.{name}(i64 %i) #0 {{
%p = getelementptr {kind}, ptr addrspace(3) @{name}, i64 %i
%y = load {kind}, ptr addrspace(3) %p, align {size}
ret {kind} %y
}}
define internal void @nnc.near.store.{name}(i64 %i, {kind} %x) #0 {{
%p = getelementptr {kind}, ptr addrspace(3) @{name}, i64 %i
store {kind} %x, ptr addrspace(3) %p, align {size}
ret void
}}"""
# Copies to near memory that go on while their thread does something else.
_FETCH = """define internal void @nnc.near.{action}.{name}(i64 %i, ptr %x, i32 %n) #0 {{
%p = getelementptr i32, ptr addrspace(3) @{name}, i64 %i
%g = addrspacecast ptr %x to ptr addrspace(1)
call void @{copy}(ptr addrspace(3) %p, ptr addrspace(1) %g, i32 %n)
ret void
}}"""
_FETCHES = {
    "fetch": "llvm.nvvm.cp.async.cg.shared.global.16.s",
    "fetch_element": "llvm.nvvm.cp.async.ca.shared.global.4.s",
}
# Matrices of near memory, of elements of 16 bits: by `nnc.near.matrices` and `nnc.near.turned`.
_MATRICES = """define internal void @nnc.near.{action}.{name}(i64 %i, ptr %a, ptr %b, ptr %c, ptr %d) #0 {{
%p = getelementptr i32, ptr addrspace(3) @{name}, i64 %i
%m = call {{i32, i32, i32, i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{turned}.b16.p3(ptr addrspace(3) %p)
%w = extractvalue {{i32, i32, i32, i32}} %m, 0
%x = extractvalue {{i32, i32, i32, i32}} %m, 1
%y = extractvalue {{i32, i32, i32, i32}} %m, 2
%z = extractvalue {{i32, i32, i32, i32}} %m, 3
store i32 %w, ptr %a
store i32 %x, ptr %b
store i32 %y, ptr %c
store i32 %z, ptr %d
ret void
}}"""
_LOAD_MATRICES = "{i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4"


_WORKERS = """%worker = call i64 @nnc.worker.{per}()
%workers = call i64 @nnc.workers.{per}()
"""
_ITEMS = """%any = icmp slt i64 %worker, %items
br i1 %any, label %work, label %done
work:
%own = mul i64 %worker, %scratch_bytes
%memory = getelementptr i8, ptr %scratch, i64 %own
br label %again
again:
%item = phi i64 [ %worker, %work ], [ %following, %again ]
%begin = add i64 %first, %item
%end = add i64 %begin, 1
call void @{symbol}(ptr %args, i64 %begin, i64 %end, ptr %memory)
%following = add i64 %item, %workers
%more = icmp slt i64 %following, %items
br i1 %more, label %again, label %done
done:
ret void
}}"""


def entry(name: str, symbol: str, worker: int, threads: int, triple: str, *, paired: bool = False) -> str:
    """The entry of a phase whose items `worker` of a group's `threads` do each; two groups at once if `paired`."""
    ptx = triple == PTX_TRIPLE
    attributes = (3 if threads > PLAIN_THREADS else 1 + paired) if ptx else 0
    head = f"define {'ptx_kernel ' if ptx else ''}void @{name}({ENTRY_ARGUMENTS}) #{attributes} {{\nentry:\n"
    if not ptx:
        per = "group" if worker == threads else "subgroup" if worker > 1 else "thread"
        return head + _WORKERS.format(per=per) + _ITEMS.format(symbol=symbol)
    count = worker.bit_length() - 1
    numbers = f"%worker = lshr i64 %thread, {count}\n%workers = lshr i64 %threads, {count}\n"
    return head + _NUMBER + numbers + _ITEMS.format(symbol=symbol)


def preamble(
    declared: Mapping[str, str],
    tables: Mapping[str, tuple[int, ...]],
    near: Mapping[str, Kind],
    functions: Sequence[str],
    entries: Iterable[str],
    target: TargetDescription,
) -> str:
    """The whole module."""
    constants = [
        f"@{name} = internal constant [{len(values)} x i64] [{', '.join(f'i64 {value}' for value in values)}], align 64"
        for name, values in tables.items()
    ]
    lines = [f'target triple = "{target.triple}"', *constants]
    if target.triple != PTX_TRIPLE:
        common = [text for name, text in _TEXTS.items() if name in declared]
        rest = [line for name, line in declared.items() if name not in _TEXTS]
        arrays = [f"@{name} = internal addrspace(3) global {array} undef, align 16" for name, array in near.items()]
        return "\n".join([*lines, *arrays, *rest, *common, *functions, *entries, ""])
    lines.insert(0, f'target datalayout = "{PTX_LAYOUT}"')
    helpers, asked = _helpers(declared)
    for name, array in near.items():
        head = _LARGE_NEAR_ARRAY if _is_large(array) else _NEAR_ARRAY
        lines.append(head.format(name=name, array=array, kind=array.element))
        lines.append(_NEAR.format(name=name, kind=array.element, size=array.size))
        lines += _shared_memory_functions(name, declared, asked)
    plain = {name: line for name, line in declared.items() if name not in helpers and not name.startswith("nnc.near.")}
    wanted = {**plain, **asked}
    numbers = {name: line for name, line in _PTX_DECLARATIONS.items() if ".sreg." in name}
    attributes = (
        "attributes #0 = { nounwind convergent alwaysinline }",
        "attributes #1 = { nounwind convergent }",
        # Two groups of 256 threads on a processor: 128 registers for each thread.
        'attributes #2 = { nounwind convergent "nvvm.maxntid"="256" "nvvm.minctasm"="2" }',
        # A large group: as many registers as its threads have.
        'attributes #3 = { nounwind convergent "nvvm.maxntid"="1024" }',
    )
    return "\n".join(
        [*lines, *{**wanted, **numbers}.values(), *helpers.values(), *functions, *entries, *attributes, ""]
    )


# Bytes of a group's memory that a launch may ask for, by code.
_NEAR_BYTES = {"sm_70": 96, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 99, "sm_90a": 227}


def shared_bytes_of(target: TargetDescription) -> int:
    """Bytes of memory that a group of a CUDA device may have."""
    return _NEAR_BYTES[target.processor] * 1024


def has_async_copies(target: TargetDescription) -> bool:
    """Whether copies to a group's memory go on by themselves: CUDA from 8.0 on, whose warps multiply 16 bits too."""
    return target.triple == PTX_TRIPLE and target.processor not in ("sm_70", "sm_75")


def requested_shared_bytes(near: Mapping[str, Kind]) -> int:
    """Bytes of a group's memory that a launch of CUDA's has to ask for; 0 where the module says them."""
    return max((array.array * array.size for array in near.values() if _is_large(array)), default=0)


def _is_large(array: Kind) -> bool:
    return array.array * array.size > STATIC_NEAR_BYTES


def _shared_memory_functions(name: str, declared: Mapping[str, str], asked: dict[str, str]) -> list[str]:
    """What is done with an array beside loads and stores; what that calls goes to `asked`."""
    texts = []
    for action, turned in (("matrices", ""), ("turned", ".trans")):
        if f"nnc.near.{action}.{name}" in declared:
            asked[turned] = f"declare {_LOAD_MATRICES}{turned}.b16.p3(ptr addrspace(3))"
            texts.append(_MATRICES.format(action=action, name=name, turned=turned))
    for action, copy in _FETCHES.items():
        if f"nnc.near.{action}.{name}" in declared:
            asked[copy] = f"declare void @{copy}(ptr addrspace(3), ptr addrspace(1), i32)"
            texts.append(_FETCH.format(action=action, name=name, copy=copy))
    for each in declared:
        if each.startswith("nnc.near.warpgroup_") and each.endswith(f".{name}"):
            texts.append(WarpgroupProduct.of(each.split(".")[2]).text(name))
    return texts


def _helpers(declared: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The functions by which threads exchange that are asked for, and what they declare."""
    helpers, asked = dict[str, str](), dict[str, str]()
    waiting = [name for name in declared if name in _PTX_FUNCTIONS]
    while waiting:
        name = waiting.pop()
        text, calls = _PTX_FUNCTIONS[name]
        helpers[name] = text
        for call in calls:
            if call in _PTX_FUNCTIONS:
                waiting.append(call)
            else:
                asked[call] = _PTX_DECLARATIONS[call]
    return helpers, asked


def entries_of(text: str) -> tuple[str, ...]:
    """The names of the entry functions in a module."""
    return tuple(re.findall(r"define (?:ptx_kernel )?void @([\w.$-]+)\(" + re.escape(ENTRY_ARGUMENTS), text))
