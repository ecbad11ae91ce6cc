"""Products of matrices by four warps together, of operands in the memory of their group: wgmma of capability 9.0.

    sums[64, n] += left[64, 16] right[16, n]        n a multiple of 8, at most 256

An operand lies in rows of 128 bytes, whose chunks of 16 bytes change places: chunk c of row r is at place c xor r mod
8, where rows count from an address that is a multiple of 1,024 bytes. Rows are lines of the operand, of 64 steps of k
each; or, `turned`, they are steps, of 64 lines each, and 64 rows on are the next 64 lines. An operand begins at a
chunk: the next 16 steps are 32 bytes on, or 2,048. (PTX ISA, "Asynchronous warpgroup level matrix instructions":
swizzling of 128 bytes.)
"""

from __future__ import annotations

from nnc.classes import dataclass

ROW_BYTES, ROWS = 128, 64
# Of a descriptor: places of its fields, which count 16 bytes, and the word for rows of 128 bytes.
LEADING, STRIDE, SWIZZLE = 16, 32, 1 << 62
ADDRESS_BITS = (1 << 18) - 1


@dataclass(frozen=True, slots=True)
class WarpgroupProduct:
    """One instruction: elements "bf16" or "f16", columns, and which operands are `turned`."""

    element: str
    columns: int
    left_turned: bool
    right_turned: bool

    @property
    def action(self) -> str:
        """Its name among functions of a memory."""
        return f"warpgroup_{self.element}_{self.columns}_{self.left_turned:d}{self.right_turned:d}"

    @classmethod
    def of(cls, action: str) -> WarpgroupProduct:
        """The one of a name."""
        _, element, columns, turned = action.split("_")
        return cls(element, int(columns), turned[0] == "1", turned[1] == "1")

    @property
    def sums(self) -> int:
        """Of each thread."""
        return self.columns // 2

    def text(self, name: str) -> str:
        """The function for the memory of this name, in LLVM's text: (bytes of the left, of the right, sums)."""
        count = self.sums
        result = "{" + ", ".join(["float"] * count) + "}"
        lines = [f"%base = ptrtoint ptr addrspace(3) @{name} to i64"]
        for side in "ab":
            lines += [
                f"%{side}t = add i64 %base, %{side}",
                f"%{side}m = and i64 %{side}t, {ADDRESS_BITS}",
                f"%{side}f = lshr i64 %{side}m, 4",
                f"%{side}d = or i64 %{side}f, {_descriptor()}",
            ]
        lines += [f"%t{k} = load float, ptr %p{k}" for k in range(count)]
        sums = ", ".join(f"${k}" for k in range(count))
        kind = f"m64n{self.columns}k16.f32.{self.element}.{self.element}"
        turned = f"{self.left_turned:d}, {self.right_turned:d}"
        code = (
            "{ .reg .pred p; setp.ne.b32 p, 1, 0; "
            f"wgmma.mma_async.sync.aligned.{kind} {{{sums}}}, ${2 * count}, ${2 * count + 1}, p, 1, 1, {turned}; }}"
        )
        constraints = ",".join([*["=f"] * count, *map(str, range(count)), "l", "l"])
        given = ", ".join([*(f"float %t{k}" for k in range(count)), "i64 %ad", "i64 %bd"])
        lines.append(f'%m = call {result} asm sideeffect "{code}", "{constraints}"({given})')
        for k in range(count):
            lines += [f"%y{k} = extractvalue {result} %m, {k}", f"store float %y{k}, ptr %p{k}"]
        arguments = ", ".join(["i64 %a", "i64 %b", *(f"ptr %p{k}" for k in range(count))])
        body = "\n".join([*lines, "ret void", "}"])
        return f"define internal void @nnc.near.{self.action}.{name}({arguments}) #0 {{\n{body}"


def _descriptor() -> int:
    """What describes both layouts: eight rows on, and 64 rows on, which matters for turned operands alone."""
    return SWIZZLE | (ROWS * ROW_BYTES // 16) << LEADING | (8 * ROW_BYTES // 16) << STRIDE
