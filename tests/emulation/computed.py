# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions of floats whose results the emulator has wrong or does not compile, computed here from AMD's text. Mixed into the driver's Emu (emulator.py).

A row: bits of the result, bits of each source, the function from the sources' bits to the result's, and for which operands the emulator is wrong (nothing: always).
"""
import fractions, math, struct

from divisions import nearest
from operands import ALL, SOURCE_LITERAL, words_at

FORMATS = {16: ("<e", "<H", 10), 32: ("<f", "<I", 23), 64: ("<d", "<Q", 52)}   # of struct: float and bits; bits of the fraction


def number(bits, size): return struct.unpack(FORMATS[size][0], struct.pack(FORMATS[size][1], bits))[0]


def bits_of(value, size):
    """Of the nearest float."""
    try: return struct.unpack(FORMATS[size][1], struct.pack(FORMATS[size][0], value))[0]
    except OverflowError: return bits_of(math.copysign(math.inf, value), size)


def is_nan(bits, size): return bits << 1 & (1 << size) - 1 > ((1 << size - 1) - (1 << FORMATS[size][2])) << 1


def mantissa(size):
    def compute(bits):
        value = number(bits, size)
        return bits if not math.isfinite(value) else bits_of(math.frexp(value)[0], size)
    return compute


def exponent(size, to):
    def compute(bits):
        value = number(bits, size)
        return math.frexp(value)[1] & (1 << to) - 1 if math.isfinite(value) else 0
    return compute


def scaled(size, by_size):
    def compute(bits, by):
        value, by = number(bits, size), by - (1 << by_size) if by >> by_size - 1 else by
        return bits if not math.isfinite(value) else bits_of(value * 2.0**max(-400, min(400, by)), size)
    return compute


def to_integer(size, to, is_signed):
    low, high = (-1 << to - 1, (1 << to - 1) - 1) if is_signed else (0, (1 << to) - 1)
    def compute(bits):
        value = number(bits, size)
        if math.isnan(value): return 0
        return int(max(low, min(high, value))) & (1 << to) - 1
    return compute


def beyond(size, is_signed, most):
    """Whether a float is NaN, of `most` and larger, or negative where the result cannot be."""
    limit, sign = bits_of(float(most), size), (1 << size - 1) - 1
    return (lambda bits: bits & sign >= limit) if is_signed else (lambda bits: bits >= limit)


def to_even(size):
    def compute(bits):
        value = number(bits, size)
        return bits if not math.isfinite(value) or abs(value) >= 2.0**FORMATS[size][2] else bits_of(math.copysign(float(round(value)), value), size)
    return compute


def loses_in_rounding(size):
    """-0 comes out as +0, and odd numbers without a fraction as even ones."""
    half, whole, top = bits_of(0.5, size), bits_of(2.0**FORMATS[size][2], size), 1 << size - 1
    return lambda bits: top <= bits <= top + half or bits & top - 1 >= whole


def fused(size):
    """A sum with a product, rounded once. The emulator rounds twice where the product and the addend are negated, and in 16 bits."""
    def compute(*operands):
        a, b, c = (number(x, size) for x in operands)
        if not all(map(math.isfinite, (a, b, c))):
            if math.isinf(c) and math.isfinite(a) and math.isfinite(b): return operands[2]
            return bits_of(math.nan if math.isnan(c) else a * b + c, size)
        exact = fractions.Fraction(a) * fractions.Fraction(b) + fractions.Fraction(c)
        if exact: return nearest(exact, size)
        return bits_of(math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b)) + c if not a or not b else 0.0, size)
    return compute


def power(bits):
    value = number(bits, 16)
    return bits if math.isnan(value) else bits_of(2.0**value if value < 100 else math.inf, 16)


def low(a, b): return b if is_nan(a, 16) else a if is_nan(b, 16) else min(a, b, key=lambda x: number(x, 16))
def high(a, b): return b if is_nan(a, 16) else a if is_nan(b, 16) else max(a, b, key=lambda x: number(x, 16))
def smallest(a, b, c): return low(low(a, b), c)
def any_nan(*operands): return any(is_nan(x, 16) for x in operands)


ROWS = {"V_FREXP_MANT_F16": (16, (16,), mantissa(16), None), "V_FREXP_EXP_I16_F16": (16, (16,), exponent(16, 16), None), "V_LDEXP_F16": (16, (16, 16), scaled(16, 16), None),
        "V_FREXP_MANT_F32": (32, (32,), mantissa(32), None), "V_FREXP_EXP_I32_F32": (32, (32,), exponent(32, 32), None), "V_LDEXP_F32": (32, (32, 32), scaled(32, 32), None),
        "V_FREXP_MANT_F64": (64, (64,), mantissa(64), None), "V_FREXP_EXP_I32_F64": (32, (64,), exponent(64, 32), None),
        "V_EXP_F16": (16, (16,), power, None),
        "V_CVT_I16_F16": (16, (16,), to_integer(16, 16, True), None), "V_CVT_U16_F16": (16, (16,), to_integer(16, 16, False), None)}
for _size in (32, 64):
    for _name, _signed, _most in (("I32", True, 2**31), ("U32", False, 2**31)):
        ROWS["V_CVT_%s_F%d" % (_name, _size)] = 32, (_size,), to_integer(_size, 32, _signed), beyond(_size, _signed, _most)
for _size in FORMATS:
    ROWS["V_FMA_F%d" % _size] = _size, (_size,) * 3, fused(_size), None
    ROWS["V_RNDNE_F%d" % _size] = _size, (_size,), to_even(_size), loses_in_rounding(_size)
for _n in ("", "_NUM"):
    for _op, _f in (("MIN3", smallest), ("MAX3", lambda a, b, c: high(high(a, b), c)), ("MED3", smallest), ("MAXMIN", lambda a, b, c: low(high(a, b), c)),
                    ("MINMAX", lambda a, b, c: high(low(a, b), c))): ROWS["V_%s%s_F16" % (_op, _n)] = 16, (16, 16, 16), _f, any_nan
PACKED = {"V_PK_%s%s_F16" % (n, end): f for n, f in (("MIN", low), ("MAX", high)) for end in ("", "_NUM")}
SCALARS = {"S_CVT_I32_F32": to_integer(32, 32, True), "S_CVT_U32_F32": to_integer(32, 32, False)}

BYTE_PRODUCTS = {0x2D: "16x16x128", 0x2E: "32x32x64"}   # of gfx950, by opcode


class Computed:
    def source_reader(self, field, size, is_short, modifiers, literal, lanes, is_gfx9):
        """Reads the bits of a vector instruction's operand: its field, and of the long form (negative, magnitude, upper half)."""
        negative, magnitude, upper = modifiers
        if size == 16 and is_short and not is_gfx9 and field >= 384: field, upper = field - 128, 1
        sign, words, full = 1 << size - 1, (size + 31) // 32, (1 << size) - 1
        is_float_constant = 240 <= field <= 248

        def read(s, v, lane):
            if field >= 256: raw = sum(v[(field - 256 + k) * lanes + lane] << 32 * k for k in range(words))
            elif field == SOURCE_LITERAL: raw = literal << 32 if size == 64 else literal
            elif field < 128: raw = sum(s[field + k] << 32 * k for k in range(words))
            elif is_float_constant: raw = bits_of(number(s[field], 32), size)
            else: raw = s[field] - (1 << 32) if s[field] >> 31 else s[field]
            raw = raw >> 16 * upper & full
            if magnitude: raw &= sign - 1
            return raw ^ (sign if negative else 0)

        return read

    def computed(self, pc, arch, w, w1):
        name, short = self.name_of(pc, arch).removesuffix("_E32").removesuffix("_E64"), not w >> 31
        if name not in ROWS: return None
        if name in ("V_FMA_F32", "V_FMA_F64") and (w1 >> 31 == 0 or not (w1 >> 29 ^ w1 >> 30) & 1): return None
        to_size, sizes, compute, doubtful = ROWS[name]
        is_gfx9, lanes = arch == "cdna", 64 if arch == "cdna" else 32
        if short: fields, to = [w & 511, 256 + (w >> 9 & 255)], w >> 17 & 255
        else: fields, to = [w1 >> at & 511 for at in (0, 9, 18)], w & 255
        if not short and (w >> 15 & 1 or w1 >> 27 & 3): self.refuse("clamp or scale of " + name, pc)
        fields = fields[:len(sizes)]
        size = (4 if short else 8) + (4 if SOURCE_LITERAL in fields else 0)
        literal, half = words_at(pc, 3)[size // 4 - 1], 0
        if to_size == 16:
            if short and not is_gfx9: to, half = to & 127, to >> 7
            elif not short: half = w >> 14 & 1
        modifiers = [(0, 0, 0) if short else (w1 >> 29 + i & 1, w >> 8 + i & 1, w >> 11 + i & 1 if sizes[i] == 16 else 0) for i in range(len(sizes))]
        readers = [self.source_reader(f, sizes[i], short, modifiers[i], literal, lanes, is_gfx9) for i, f in enumerate(fields)]
        native = None
        if doubtful: native = short and is_gfx9 and self.half_words(pc, arch, w, w1) or super()._step(pc, arch)
        return self.computed_run(name, to, to_size, half, readers, compute, doubtful, native, lanes, pc + size, is_gfx9), ALL, False, name.lower()

    def computed_run(self, name, to, to_size, half, readers, compute, doubtful, native, lanes, following, is_gfx9):
        first, low_word, words = self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, (to_size + 31) // 32

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            rows = [(lane, [read(s, v, lane) for read in readers]) for lane in range(lanes) if active >> lane & 1]
            if native:
                native[0](*[buffers[i] for i in native[1]])
                rows = [(lane, operands) for lane, operands in rows if doubtful(*operands)]
            for lane, operands in rows:
                result = compute(*operands)
                if to_size == 16:
                    old = v[to * lanes + lane]
                    v[to * lanes + lane] = old & 0xFFFF | result << 16 if half else result if is_gfx9 else old & 0xFFFF0000 | result
                else:
                    for k in range(words): v[(to + k) * lanes + lane] = result >> 32 * k & 0xFFFFFFFF
            s[low_word], s[low_word + 1] = following & 0xFFFFFFFF, following >> 32

        return run

    def packed(self, pc, arch, w, w1):
        """Minima and maxima of two pairs: a half where one of them is NaN is computed here."""
        if arch == "cdna" and w >> 16 & 127 in BYTE_PRODUCTS: return self.product_of_bytes(pc, arch, w, w1, BYTE_PRODUCTS[w >> 16 & 127])
        name = self.name_of(pc, arch)
        if name.startswith(("V_FMA_MIX", "V_MAD_MIX")): return self.mixed(pc, arch, w, w1, name)   # gfx942: the other name, and one rounding
        if name not in PACKED: return None
        if w >> 15 & 1: self.refuse("clamp of " + name, pc)
        fields, to, lanes, compute = (w1 & 511, w1 >> 9 & 511), w & 255, 64 if arch == "cdna" else 32, PACKED[name]
        literal, native, first = words_at(pc, 3)[2], super()._step(pc, arch), self.emu.EXEC_LO.offset
        modifiers = [[(w1 >> 29 + i & 1, 0, w >> 11 + i & 1), (w >> 8 + i & 1, 0, w1 >> 27 + i & 1)] for i in range(2)]   # of each operand, of both halves
        readers = [[self.source_reader(f, 16, False, modifiers[i][half], literal, lanes, arch == "cdna") for i, f in enumerate(fields)] for half in range(2)]

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            rows = [(lane, [[read(s, v, lane) for read in pair] for pair in readers]) for lane in range(lanes) if active >> lane & 1]
            native[0](*[buffers[i] for i in native[1]])
            for lane, pairs in rows:
                for half, pair in enumerate(pairs):
                    if any_nan(*pair): v[to * lanes + lane] = v[to * lanes + lane] & ~(0xFFFF << 16 * half) & 0xFFFFFFFF | compute(*pair) << 16 * half

        return run, ALL, False, name.lower()

    def product_of_bytes(self, pc, arch, w, w1, shape):
        """Matrix products of gfx950 that name the type of each operand in their words, which the driver does not know. Of six and four bits: refused."""
        types = {0: "FP8", 1: "BF8"}
        left, right = types.get(w >> 8 & 7), types.get(w1 >> 29)
        if not left or not right: self.refuse("v_mfma_f32_%s_f8f6f4 of operands that are no bytes" % shape, pc)
        parameters, text = self.driver.mat_decode(w & ~0x700, w1 & 0x1FFFFFFF, arch, self.gfx, "V_MFMA_F32_%s_%s_%s" % (shape.upper(), left, right))
        return "mat", parameters, False, text

    def mixed(self, pc, arch, w, w1, name):
        """Sums with products of f32 and f16, where a constant is f32: the emulator takes the bits of f16."""
        fields, is_half = [w1 >> at & 511 for at in (0, 9, 18)], [w1 >> 27 & 1, w1 >> 28 & 1, w >> 14 & 1]
        if not any(240 <= f <= 248 and not half for f, half in zip(fields, is_half)): return None
        if w >> 15 & 1: self.refuse("clamp of " + name, pc)
        to, lanes, first, low_word, sum_of = w & 255, 64 if arch == "cdna" else 32, self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, fused(32)
        following, sizes = pc + (12 if SOURCE_LITERAL in fields else 8), [16 if half else 32 for half in is_half]
        modifiers = [(w1 >> 29 + i & 1, w >> 8 + i & 1, w >> 11 + i & 1 if is_half[i] else 0) for i in range(3)]
        readers = [self.source_reader(f, sizes[i], False, modifiers[i], words_at(pc, 3)[2], lanes, arch == "cdna") for i, f in enumerate(fields)]

        def run(scalars, vectors):
            s, v = words_at(scalars.value, 260), words_at(vectors.value, 256 * lanes)
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            for lane in range(lanes):
                if not active >> lane & 1: continue
                result, old = sum_of(*[bits_of(number(read(s, v, lane), sizes[i]), 32) for i, read in enumerate(readers)]), v[to * lanes + lane]
                if not name.endswith("MIX_F32"):
                    result = bits_of(number(result, 32), 16)
                    result = old & 0xFFFF | result << 16 if "HI" in name else old & 0xFFFF0000 | result
                v[to * lanes + lane] = result
            s[low_word], s[low_word + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0, 1), False, name.lower()

    def scalar_conversion(self, pc, arch, w, w1):
        """gfx12: S_CVT of a float."""
        name = self.name_of(pc, arch)
        if name not in SCALARS: return None
        compute, source, to, low_word = SCALARS[name], w & 255, w >> 16 & 127, self.emu.PC_LO_IDX
        following = pc + (8 if source == SOURCE_LITERAL else 4)

        def run(scalars):
            s = words_at(scalars.value, 260)
            s[to] = compute(w1 if source == SOURCE_LITERAL else s[source])
            s[low_word], s[low_word + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0,), False, name.lower()
