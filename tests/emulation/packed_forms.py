# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of instructions.py with several results or mixed operands: two instructions in one (VOPD of gfx11 and gfx12), packed arithmetic (VOP3P), sums of products
of small numbers, and arithmetic on f32 and f16 together. What each computes is said here and in manual.py."""
import math

from drawn_operands import MASK, VCC, Source, Test, constant_bits, draw_bits, is_signalling, source, vector, without_denormals
from manual import ANY, ROWS, bits_of_type, decode, encode, field, fma, high, low, row, times


def entry(kind, register, half, lane, value, is_moved=False):
    """A result of instructions.verdict: 16 bits leave the other half as it is."""
    to = Source(kind, "v", register, "v%d" % register, half)
    to.is_moved = is_moved
    return to, lane, kind, value, ("WORD_%d" % half, "UNUSED_PRESERVE") if bits_of_type(kind) == 16 else None


def active_lanes(state): return [lane for lane in range(state.lanes) if state.active(lane)]


# --------------------------------------------------------------------------------------------------------------- two in one
# Operations of VOPD: those that both have, then those of the second. The operation's own result is an operand of fmac; fmaak and fmamk have a literal.
BOTH = {"fmac_f32": "v_fma_f32", "fmaak_f32": "v_fma_f32", "fmamk_f32": "v_fma_f32", "mul_f32": "v_mul_f32", "add_f32": "v_add_f32", "sub_f32": "v_sub_f32", "subrev_f32": "v_subrev_f32",
        "mov_b32": "v_mov_b32", "cndmask_b32": "v_cndmask_b32", "max_f32": "v_max_f32", "min_f32": "v_min_f32", "max_num_f32": "v_max_f32", "min_num_f32": "v_min_f32"}
SECOND = {"add_nc_u32": "v_add_nc_u32", "lshlrev_b32": "v_lshlrev_b32", "and_b32": "v_and_b32"}


class Half:
    """One of the two instructions: text, operands, where its result goes."""

    def __init__(self, r, target, name, parity, bank, scalars, literals):
        to, kinds, self.compute = ROWS[BOTH.get(name) or SECOND[name]]
        self.to, self.name, self.takes_mask = to, name, "mask" in kinds
        register = lambda low_bits, mask: r.randrange(256 // (mask + 1)) * (mask + 1) | low_bits
        self.destination = Source(to, "v", register(parity, 1), "")
        pair = [k for k in kinds if k != "mask"][:2]
        first = source(r, target, pair[0], [], scalars)
        if first.file == "v": first = Source(pair[0], "v", register(bank, 3), "")
        self.sources = [first] + ([Source(pair[1], "v", register(bank, 3), "")] if len(pair) > 1 else [])
        if first.file == "c" and first.name.startswith("0x"): first = self.sources[0] = self.literal(r, pair[0], literals)
        for x in self.sources + [self.destination]:
            if x.file == "v": x.name = "v%d" % x.number
        words = [self.destination] + list(self.sources)
        if name == "fmac_f32": self.sources.append(self.destination)
        if name == "fmaak_f32": self.sources.append(self.literal(r, "f32", literals)); words.append(self.sources[2])
        if name == "fmamk_f32": self.sources.insert(1, self.literal(r, "f32", literals)); words.insert(2, self.sources[1])
        for x in self.sources + [self.destination]: x.is_moved = name in ("mov_b32", "cndmask_b32")
        self.text = "v_dual_%s %s" % (name, ", ".join(x.name for x in words))

    @staticmethod
    def literal(r, kind, literals):
        """All that one instruction has are the same."""
        if not literals: literals.append(draw_bits(r, "f32"))
        return Source(kind, "c", literals[0], "0x%x" % literals[0])

    def result(self, state, lane):
        values = [x.value(state, lane) for x in self.sources] + ([state.vcc >> lane & 1] if self.takes_mask else [])
        if any(is_signalling(x.kind, x.bits(state, lane)) for x in self.sources) and self.name != "mov_b32": return ANY
        return self.compute(*values)


def dual_test(first, second):
    def make(r, target, name, _):
        scalars, literals, parity, bank = [], [], r.randrange(2), r.randrange(4)
        names = first or r.choice(list(BOTH)), second or r.choice(list(BOTH) + list(SECOND))
        halves = [Half(r, target, names[i], parity ^ i, (bank + (r.randrange(1, 4) if i else 0)) % 4, scalars, literals) for i in range(2)]

        def expect(state):   # both read what was there before
            return [entry(h.to, h.destination.number, 0, lane, h.result(state, lane), h.destination.is_moved) for lane in active_lanes(state) for h in halves]

        return Test("v_dual_%s v_dual_%s" % names, " :: ".join(h.text for h in halves), halves[0].sources + halves[1].sources, expect)
    return make


# ------------------------------------------------------------------------------------------------------------------- packed
# Names of VOP3P: type of a half, the plain instruction that each half is.
PACKED = {"v_pk_%s" % n: plain for n, plain in [("%s_f16" % n, "v_%s_f16" % n) for n in ("add", "mul", "fma", "min", "max")] +
          [("min_num_f16", "v_min_f16"), ("max_num_f16", "v_max_f16"), ("add_u16", "v_add_u16"), ("sub_u16", "v_sub_u16"), ("add_i16", "v_add_u16"), ("sub_i16", "v_sub_u16"),
           ("mul_lo_u16", "v_mul_lo_u16"), ("min_i16", "v_min_i16"), ("max_i16", "v_max_i16"), ("min_u16", "v_min_u16"), ("max_u16", "v_max_u16"),
           ("lshlrev_b16", "v_lshlrev_b16"), ("lshrrev_b16", "v_lshrrev_b16"), ("ashrrev_i16", "v_ashrrev_i16")] +
          [("%s_f32" % n, "v_%s_f32" % n) for n in ("add", "mul", "fma")]}
row("v_mad_u16", "u16", "u16 u16 u16", lambda a, b, c: a * b + c)
PACKED["v_pk_mad_u16"] = PACKED["v_pk_mad_i16"] = "v_mad_u16"


def halves_of(r, target, kind, scalars, has_constants):
    """Both halves of an operand and its text: of 16 bits in a register, of 32 in two. A constant is the same in both; it is read by op_sel_hi:0, as the compiler has it."""
    wide = bits_of_type(kind) == 32
    what = r.random()
    if has_constants and what < 0.2:
        text = r.choice(("0.5", "1.0", "-2.0", "4.0", "0")) if kind[0] == "f" else str(r.randint(-16, 64))
        return [Source(kind, "c", constant_bits(kind, text), text)] * 2, text
    file, number = ("v", r.randrange(0, 126) * 2) if what < 0.75 else ("s", scalars[0] if scalars and not target.is_gfx9 or scalars and r.random() < 0.5 else 2 * r.randrange(2, 20))
    if file == "s": scalars[:] = [number] if target.is_gfx9 and not scalars else scalars or [number]
    if wide: return [Source(kind, file, number + i, "") for i in range(2)], "%s[%d:%d]" % (file, number, number + 1)
    return [Source(kind, file, number, "", i) for i in range(2)], "%s%d" % (file, number)


def packed_test(r, target, name, _):
    to, kinds, compute = ROWS[PACKED[name]]
    scalars, count, wide = [], len(kinds), bits_of_type(to) == 32
    operands = [halves_of(r, target, k, scalars, not wide) for k in kinds]
    selects = [[0, 0] if pair[0].file == "c" else [r.randrange(2) if r.random() < 0.4 else i for i in range(2)] for pair, _ in operands]   # per operand: of the low and of the high result
    signs = [[int(kinds[0][0] == "f" and r.random() < 0.25) for _ in range(2)] for _ in operands]
    number = r.randrange(0, 126) * 2
    text = "%s %s, %s" % (name, "v[%d:%d]" % (number, number + 1) if wide else "v%d" % number, ", ".join(t for _, t in operands))
    for word, values, default in (("op_sel", [s[0] for s in selects], 0), ("op_sel_hi", [s[1] for s in selects], 1), ("neg_lo", [s[0] for s in signs], 0), ("neg_hi", [s[1] for s in signs], 0)):
        if any(v != default for v in values): text += " %s:[%s]" % (word, ",".join(map(str, values)))

    def expect(state):
        out = []
        for lane in active_lanes(state):
            for half in range(2):
                parts = [pair[selects[i][half]] for i, (pair, _) in enumerate(operands)]
                bits = [x.bits(state, lane) for x in parts]
                flipped = [b ^ signs[i][half] << bits_of_type(kinds[i]) - 1 for i, b in enumerate(bits)]
                value = compute(*[decode(kinds[i], without_denormals(kinds[i], b, state.denormals & 1)) for i, b in enumerate(flipped)])
                if any(is_signalling(kinds[i], b) for i, b in enumerate(bits)): value = ANY
                out.append(entry(to, number + half if wide else number, 0 if wide else half, lane, value))
        return out

    sources = [x for pair, _ in operands for x in pair]
    return Test(name, text, sources, expect)


def move_test(r, target, name, _):
    """v_pk_mov_b32: the low word of the one operand and the high one of the other, as chosen."""
    a, b = (halves_of(r, target, "u32", [], False) for _ in range(2))
    chosen, number = [r.randrange(2), r.randrange(2)], r.randrange(0, 126) * 2
    text = "%s v[%d:%d], %s, %s op_sel:[%d,%d]" % (name, number, number + 1, a[1], b[1], *chosen)

    def expect(state):
        return [entry("u32", number + i, 0, lane, (a, b)[i][0][chosen[i]].bits(state, lane)) for lane in active_lanes(state) for i in range(2)]

    return Test(name, text, a[0] + b[0], expect)


# --------------------------------------------------------------------------------------------------------- sums of products
def dot_test(is_signed, width):
    """Four products of bytes, or eight of 4 bits, and a sum."""
    def make(r, target, name, _):
        scalars = []
        sources = [source(r, target, "u32", [], scalars) for _ in range(3)]
        if target.is_gfx9 and any(x.file == "c" and x.name.startswith("0x") for x in sources): return None
        signs = [r.randrange(2), r.randrange(2)] if "_iu" in name else [is_signed] * 2
        number = r.randrange(256)
        text = "%s v%d, %s" % (name, number, ", ".join(x.text() for x in sources)) + (" neg_lo:[%d,%d,0]" % tuple(signs) if "_iu" in name else "")

        def expect(state):
            out = []
            for lane in active_lanes(state):
                a, b, c = (x.bits(state, lane) for x in sources)
                total = c + sum(field(a, at, width, signs[0]) * field(b, at, width, signs[1]) for at in range(0, 32, width))
                out.append(entry("u32", number, 0, lane, total & MASK))
            return out

        return Test(name, text, sources, expect)
    return make


# ------------------------------------------------------------------------------------------------------------------- mixed
def mixed_test(r, target, name, _):
    """fma of operands that are f32, or a half of a register, in f32; its f16 is rounded again."""
    scalars, sources, words, selects, wides = [], [], [], [], []
    for _ in range(3):
        is_half = r.random() < 0.6
        x = source(r, target, "f16" if is_half else "f32", [], scalars)
        if x.file == "c" and (is_half or target.is_gfx9 and x.name.startswith("0x")): x = vector(r, target, "f32", [])
        is_half = x.kind == "f16"
        half = r.randrange(2) if is_half else 0
        register = x.name.split(".")[0] if x.file == "v" else x.name   # the upper half has no name here
        x = Source("f16" if is_half else "f32", x.file, x.number, register, half)
        if x.file != "c": x.negative, x.magnitude = int(r.random() < 0.3), int(r.random() < 0.3)
        sources.append(x)
        words.append(x.text()); selects.append(half); wides.append(int(is_half))
    number = r.randrange(256)
    text = "%s v%d, %s op_sel:[%d,%d,%d] op_sel_hi:[%d,%d,%d]" % (name, number, ", ".join(words), *selects, *wides)
    to = "f32" if name == "v_fma_mix_f32" else "f16"

    def expect(state):
        out = []
        for lane in active_lanes(state):
            value = fma(*[x.value(state, lane) for x in sources])
            if to == "f16": value = decode("f32", encode("f32", value))
            if any(is_signalling(x.kind, x.bits(state, lane)) for x in sources): value = ANY
            out.append(entry(to, number, int("hi_" in name), lane, value))
        return out

    return Test(name, text, sources, expect)


def makers(target):
    """Names of instructions and the functions that draw a form of them."""
    out = [(name, packed_test) for name in PACKED if not name.endswith("_f32") or target.is_gfx9]
    out += [(name, mixed_test) for name in ("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")]
    signed = "i" if target.is_gfx9 else "iu"   # gfx11 and later take the other name and mean numbers without signs
    out += [("v_dot4_i32_%s8" % signed, dot_test(1, 8)), ("v_dot4_u32_u8", dot_test(0, 8)), ("v_dot8_i32_%s4" % signed, dot_test(1, 4)), ("v_dot8_u32_u4", dot_test(0, 4)), ("v_pk_mov_b32", move_test)]
    if not target.is_gfx9:
        out += [("v_dual_" + name, dual_test(name, None)) for name in BOTH] + [(":: v_dual_" + name, dual_test(None, name)) for name in list(BOTH) + list(SECOND)]
    return out
