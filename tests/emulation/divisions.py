# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The steps of a precise division, from AMD's text, and fused multiplications. Mixed into the driver's Emu (emulator.py)."""
import fractions, math, struct

from operands import ALL, SOURCE_LITERAL, words_at

VCC, NULL = 106, 124   # NULL: of gfx11 and gfx12


def as_double(bits): return struct.unpack("<d", struct.pack("<Q", bits))[0]
def bits_of(double): return struct.unpack("<Q", struct.pack("<d", double))[0]
def as_float(bits): return struct.unpack("<f", struct.pack("<I", bits))[0]


# Steps of a precise division. AMD's text of V_DIV_SCALE (documentation of the instruction set): denormals are scaled, where the emulator has NaN for them and
# leaves a large divisor and a small quotient as they are. V_DIV_FMAS undoes the scaling in one rounding. V_DIV_FIXUP has 0 below the least denormal. Per size of a float: bits of the fraction,
# least exponent of a normal number, distance of exponents from which on the quotient is near the largest number, what is a tiny numerator, the scale.
DIVISIONS = {16: (10, -14, 0, 0, 0), 32: (23, -126, 96, 23, 64), 64: (52, -1022, 768, 53, 128)}   # of 16 only the first two


def parts(bits, size):
    """Biased exponent and, where the number is finite, its value."""
    fraction = DIVISIONS[size][0]
    exponent = bits >> fraction & (1 << size - 1 - fraction) - 1
    value = as_float(bits) if size == 32 else as_double(bits)
    return exponent, fractions.Fraction(value) if math.isfinite(value) else None


def nearest(value, size):
    """The bits of the float of `size` bits nearest to a fraction, ties to even."""
    fraction, least, *_ = DIVISIONS[size]
    magnitude = abs(value)
    exponent = max(least, magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1) if value else least
    while magnitude >= fractions.Fraction(2)**(exponent + 1): exponent += 1
    steps = round(magnitude / fractions.Fraction(2)**(exponent - fraction))   # to even
    most = ((1 << size - 1 - fraction) - 1) << fraction
    return min(steps + (exponent - least << fraction), most) | (value < 0) << size - 1


def division_scale(size, s0, s1, s2):
    """What V_DIV_SCALE leaves of s0, and its condition."""
    _, least, far, tiny, by = DIVISIONS[size]
    (e1, divisor), (e2, numerator) = parts(s1, size), parts(s2, size)
    value, most = parts(s0, size)[1], fractions.Fraction(2)**least
    if divisor == 0 or numerator == 0: return (0x7FC00000 if size == 32 else 0x7FF8 << 48), False
    if None in (divisor, numerator, value): return s0, False   # what V_DIV_FIXUP replaces
    shifted = lambda wanted, shift: nearest(value * fractions.Fraction(2)**shift, size) if wanted else s0
    small_quotient, small_reciprocal = abs(numerator / divisor) < most, abs(1 / divisor) < most
    if e2 - e1 >= far: return shifted(s0 == s1, by), True
    if e1 == 0: return shifted(True, by), False
    if small_reciprocal and small_quotient: return shifted(s0 == s1, -by), True
    if small_reciprocal: return shifted(True, -by), False
    if small_quotient: return shifted(s0 == s2, by), True
    return shifted(e2 <= tiny, by), False


def division_multiply_add(size, is_scaled, a, b, c):
    """V_DIV_FMAS; nothing where an operand is not finite."""
    bias, by = 1 - DIVISIONS[size][1], DIVISIONS[size][4]
    values = [parts(x, size)[1] for x in (a, b, c)]
    if None in values: return None
    shift = 0 if not is_scaled else by if parts(c, size)[0] > bias else -by
    return nearest((values[0] * values[1] + values[2]) * fractions.Fraction(2)**shift, size)


def division_fixup(size, s0, s1, s2):
    """V_DIV_FIXUP: the quotient s0 of s2 by s1, or what it is without a division. What is too small for the least denormal is rounded to 0."""
    fraction, least, *_ = DIVISIONS[size]
    top = 1 << size - 1
    infinity, quiet = (top >> fraction) - 1 << fraction, 1 << fraction - 1
    sign, magnitude1, magnitude2 = (s1 ^ s2) & top, s1 & top - 1, s2 & top - 1
    for x in (s2, s1):
        if x & top - 1 > infinity: return x | quiet
    if magnitude1 == magnitude2 and magnitude1 in (0, infinity): return top | infinity | quiet
    if not magnitude1 or magnitude2 == infinity: return sign | infinity
    if not magnitude2 or magnitude1 == infinity or (magnitude2 >> fraction) - (magnitude1 >> fraction) < least - fraction - 1: return sign
    if s0 & top - 1 > infinity: return sign | infinity   # the steps before went beyond the largest number
    return sign | s0 & top - 1


def wide_constant(source):
    """The bits of an inline constant as an f64."""
    if source >= 240: return bits_of((0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.5 / math.pi)[source - 240])
    return (source - 128 if source <= 192 else 192 - source) & (1 << 64) - 1


class Divisions:
    # -- scaling in divisions
    def division(self, pc, arch, w, w1):
        name = self.name_of(pc, arch).removesuffix("_E64")
        is_scale = name.startswith("V_DIV_SCALE_F")
        is_fixup = name.startswith("V_DIV_FIXUP_F") and not name.endswith("16")
        if not is_scale and not is_fixup and not name.startswith("V_DIV_FMAS_F"): return None
        size, sources, to = int(name[-2:]), [w1 >> i & 511 for i in (0, 9, 18)], w & 255
        if w >> 15 & 1 or w1 >> 27 & 3: self.refuse("clamp or scale of " + name, pc)
        literal = words_at(pc, 3)[2] << size - 32   # where there is one: the upper half of an f64
        lanes, first, condition = 64 if arch == "cdna" else 32, self.emu.EXEC_LO.offset, w >> 8 & 127 if is_scale else VCC
        call, used, barrier, text = super()._step(pc, arch)
        words, signs, full = size // 32, [(w1 >> 29 + i & 1) << size - 1 for i in range(3)], (1 << size) - 1
        kept = [full >> 1 if not is_scale and w >> 8 + i & 1 else full for i in range(3)]   # all bits but the sign of a magnitude

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)

            def read(x, i):
                if x == SOURCE_LITERAL: return literal
                if size == 64 and 128 <= x < 256: return wide_constant(x)
                return sum((v[(x - 256 + k) * lanes + i] if x >= 256 else s[x + k]) << 32 * k for k in range(words))

            mask = lambda at: s[at] | (s[at + 1] << 32 if lanes == 64 else 0)
            active, was_scaled = mask(first), mask(condition)
            operands = {i: [read(x, i) & keep ^ sign for x, keep, sign in zip(sources, kept, signs)] for i in range(lanes) if active >> i & 1}
            call(*[buffers[i] for i in used])
            held = mask(condition)
            for i, values in operands.items():
                if is_scale:
                    result, is_scaled = division_scale(size, *values)
                    held = held & ~(1 << i) | is_scaled << i
                elif is_fixup: result = division_fixup(size, *values)
                else: result = division_multiply_add(size, was_scaled >> i & 1, *values)
                for k in range(words if result is not None else 0): v[(to + k) * lanes + i] = result >> 32 * k & 0xFFFFFFFF
            if is_scale and not (condition == NULL and lanes == 32):   # nothing is written there, and later instructions read 0
                s[condition] = held & 0xFFFFFFFF
                if lanes == 64: s[condition + 1] = held >> 32

        return run, (0, 1, 2, 3, 4, 5), barrier, text
