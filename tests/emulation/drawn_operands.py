# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values and operands that the tests of single instructions draw (instructions.py, packed_forms.py)."""
from manual import FLOATS, bits_of_type, decode, encode

MASK = 0xFFFFFFFF
INLINE_FLOATS = {"0.5": 0.5, "-0.5": -0.5, "1.0": 1.0, "-1.0": -1.0, "2.0": 2.0, "-2.0": -2.0, "4.0": 4.0, "-4.0": -4.0}
VCC, NULL, EXEC, SCC = 106, 124, 126, 253
KEPT = 3   # denormals of f32: bit 0, operands keep them; bit 1, results do


# ------------------------------------------------------------------------------------------------------------------- values
def draw_bits(r, kind):
    """The bits of a value of a type: small, large, special, near each other, or anything. No signalling NaN."""
    size = bits_of_type(kind)
    if kind[0] == "f":
        fraction = FLOATS[kind][3]
        infinity, sign = (1 << size - 1) - (1 << fraction), r.randrange(2) << size - 1
        what = r.randrange(8)
        if what == 0: return sign | r.choice((0, 1, (1 << fraction) - 1, 1 << fraction, infinity - 1, infinity, infinity | 1 << fraction - 1))
        if what == 1: return sign | r.randrange(1 << fraction)                       # denormal
        if what < 5: return encode(kind, r.choice((1, -1)) * r.uniform(0.01, 100.0))
        if what == 5: return encode(kind, float(r.randint(-40, 40)) / 2)
        value = r.randrange(infinity)
        return sign | value
    what = r.randrange(4)
    if what == 0: return r.choice((0, 1, 2, (1 << size - 1) - 1, 1 << size - 1, (1 << size) - 1, (1 << size) - 2))
    if what == 1: return r.randrange(64)
    return r.getrandbits(size)


def is_signalling(kind, bits):
    """A NaN whose first fraction bit is 0. What becomes of it depends on a mode; none is drawn on purpose, but a register may be read as two types."""
    if kind[0] != "f": return False
    fraction, magnitude = FLOATS[kind][3], bits & (1 << bits_of_type(kind) - 1) - 1
    infinity = (1 << bits_of_type(kind) - 1) - (1 << fraction)
    return infinity < magnitude < infinity + (1 << fraction - 1)


def without_denormals(kind, bits, are_kept):
    """A denormal f32 is 0 with its sign where denormals are not kept."""
    return bits & 1 << 31 if kind == "f32" and not are_kept and not bits & 0x7F800000 else bits


def constant_bits(kind, text):
    """Of an inline constant, as an operand of a type reads it."""
    size = bits_of_type(kind)
    if text in INLINE_FLOATS: return encode("f%d" % size, INLINE_FLOATS[text])
    return int(text) & (1 << size) - 1


# ----------------------------------------------------------------------------------------------------------------- operands
class Target:
    def __init__(self, name):
        self.name, self.is_gfx9 = name, name.startswith("gfx9")
        self.arch = "cdna" if self.is_gfx9 else "rdna3" if name.startswith("gfx11") else "rdna4"
        self.lanes = 64 if self.is_gfx9 else 32
        self.vcc = "vcc" if self.is_gfx9 else "vcc_lo"

    def mask_text(self, at): return self.vcc if at == VCC else "s[%d:%d]" % (at, at + 1) if self.is_gfx9 else "s%d" % at


class Source:
    """An operand. `place`: "v" and a register, "s" and a register, "c" and bits; `half`: 1 the upper one of a 16-bit operand. `is_moved`: nothing is computed with it."""

    is_moved = False

    def __init__(self, kind, file, number, text, half=0): self.kind, self.file, self.number, self.name, self.half, self.negative, self.magnitude, self.select = kind, file, number, text, half, 0, 0, None

    def text(self):
        if self.select and self.select[1]: return "sext(%s)" % self.name
        return "%s%s" % ("-" if self.negative else "", "|%s|" % self.name if self.magnitude else self.name)

    def bits(self, state, lane):
        size = bits_of_type(self.kind)
        if self.file == "c": return self.number
        words = [state.v[(self.number + k) * state.lanes + lane] if self.file == "v" else state.s[self.number + k] for k in range((size + 31) // 32)]
        raw = sum(w << 32 * k for k, w in enumerate(words)) >> 16 * self.half
        if self.select: return selected(raw, *self.select, size)
        return raw & (1 << size) - 1

    def value(self, state, lane, bits=None):
        size, bits = bits_of_type(self.kind), self.bits(state, lane) if bits is None else bits
        if self.kind[0] == "f":
            if self.magnitude: bits &= ~(1 << size - 1)
            bits ^= self.negative << size - 1
        return decode(self.kind, bits if self.is_moved else without_denormals(self.kind, bits, state.denormals & 1))


def draw_select(r, kind, is_constant):
    """Part of a word, and whether its sign fills what is above. Floats and constants are read whole."""
    if is_constant: return None
    if kind[0] != "f": return r.choice(list(SELECTS)), r.random() < 0.3
    return "DWORD" if kind == "f32" else r.choice(("WORD_0", "WORD_1", "DWORD")), False


SELECTS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32)}


def selected(raw, name, is_signed, size):
    shift, width = SELECTS[name]
    part = raw >> shift & (1 << width) - 1
    if is_signed and part >> width - 1: part -= 1 << width
    return part & (1 << size) - 1


def vector(r, target, kind, used, short=False):
    size = bits_of_type(kind)
    number = r.choice(used) if used and r.random() < 0.4 else r.choice([r.randrange(0, 24), r.randrange(100, 126), r.randrange(130, 160), r.randrange(240, 254)])
    if size == 64: number &= ~1
    if size == 16 and not target.is_gfx9 and short: number &= 127
    used.append(number)
    if size == 16 and target.arch == "rdna3":   # the assembler's names for halves; on gfx12 it has none yet
        half = r.randrange(2)
        return Source(kind, "v", number, "v%d.%s" % (number, "lh"[half]), half)
    return Source(kind, "v", number, "v[%d:%d]" % (number, number + 1) if size == 64 else "v%d" % number)


def source(r, target, kind, used, scalars, short=False):
    size, what = bits_of_type(kind), r.random()
    if what < 0.6: return vector(r, target, kind, used, short)
    if what < 0.75:
        number = r.choice(scalars) if scalars and r.random() < 0.6 else 2 * r.randrange(2, 20)
        scalars.append(number)
        return Source(kind, "s", number, "s[%d:%d]" % (number, number + 1) if size == 64 else "s%d" % number)
    if what < 0.9 or size == 64:
        text = r.choice(list(INLINE_FLOATS)) if kind[0] == "f" and r.random() < 0.7 else str(r.randint(-16, 64))
        return Source(kind, "c", constant_bits(kind, text), text)
    bits = draw_bits(r, kind) if size == 16 else draw_bits(r, kind) & MASK
    if kind[0] != "f" and size == 16: bits &= 0x7FFF
    return Source(kind, "c", bits, "0x%x" % bits)


class Test:
    """Text of an instruction, and what it does: expect(state) gives a list of ("v", register, lane, bits of the right value, type or a Near), ("s", register, bits), and so on."""

    def __init__(self, name, text, sources, expect): self.name, self.text, self.sources, self.expect, self.code = name, text, sources, expect, None
