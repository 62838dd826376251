#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulator's driver with corrections for what the emulator gets wrong (each shown by an object of one instruction; docs/emulation.md lists them).

As a program it takes the arguments of the driver. As a module: load() returns the driver, whose class Emu has the corrections.

An instruction that is not corrected and known to be wrong stops the run, so that no number is lost silently.
"""
import ctypes, fractions, importlib.util, math, os, struct, sys

import scheduler

LITERAL_SLOT = 209     # of the emulator's scalar file: between the inline constants, used by none
SOURCE_LITERAL, SOURCE_SDWA, SOURCE_DPP = 255, 249, 250
VCC, NOP = 106, 0xBF800000

# Loads of 16 bits: C type, whether the other half of the register stays, where the half lies. Stores: how many words.
HALF_LOADS = {"GLOBAL_LOAD_U16": (ctypes.c_uint16, False, 0), "GLOBAL_LOAD_USHORT": (ctypes.c_uint16, False, 0), "GLOBAL_LOAD_I16": (ctypes.c_int16, False, 0),
              "GLOBAL_LOAD_SSHORT": (ctypes.c_int16, False, 0), "GLOBAL_LOAD_D16_B16": (ctypes.c_uint16, True, 0), "GLOBAL_LOAD_SHORT_D16": (ctypes.c_uint16, True, 0),
              "GLOBAL_LOAD_D16_HI_B16": (ctypes.c_uint16, True, 16), "GLOBAL_LOAD_SHORT_D16_HI": (ctypes.c_uint16, True, 16)}
WIDE_ATOMICS = ("GLOBAL_ATOMIC_CMPSWAP_X2", "GLOBAL_ATOMIC_CMPSWAP_B64", "GLOBAL_ATOMIC_ADD_F64")
STORES = {"GLOBAL_STORE_" + name: count for count, names in enumerate((("B32", "DWORD"), ("B64", "DWORDX2"), ("B96", "DWORDX3"), ("B128", "DWORDX4")), 1)
          for name in names}
# Buffer instructions of gfx11 and gfx12: bytes, signed, and of 16-bit ones which keep the other half of the register, or read their upper half.
BUFFER_SIZES = {"U8": 1, "I8": 1, "B8": 1, "U16": 2, "I16": 2, "B16": 2, "B32": 4, "B64": 8, "B96": 12, "B128": 16}
NULL_SCALAR, ZERO = 124, 128


def words_at(address, count):
    return (ctypes.c_uint32 * count).from_address(address)


def as_double(bits): return struct.unpack("<d", struct.pack("<Q", bits))[0]
def bits_of(double): return struct.unpack("<Q", struct.pack("<d", double))[0]
def as_float(bits): return struct.unpack("<f", struct.pack("<I", bits))[0]


def float_bits(value):
    """Of the nearest f32."""
    try: return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError: return 0x7F800000 | (0x80000000 if value < 0 else 0)


def mantissa(bits, _):
    value = as_float(bits)
    return bits if not math.isfinite(value) else float_bits(math.frexp(value)[0])


def exponent(bits, _):
    value = as_float(bits)
    return math.frexp(value)[1] & 0xFFFFFFFF if math.isfinite(value) else 0


def scaled(bits, by):
    value, by = as_float(bits), by - (1 << 32) if by >> 31 else by
    return bits if not math.isfinite(value) else float_bits(value * 2.0**max(-400, min(400, by)))


# Of f32, whole: the emulator has 0.5 for the mantissa of 0, and takes denormals for what they are not.
FLOATS = {"V_FREXP_MANT_F32": mantissa, "V_FREXP_EXP_I32_F32": exponent, "V_LDEXP_F32": scaled}


def signed(value, bits):
    return value - (1 << bits) if value >> bits - 1 else value


# Steps of a precise division. AMD's text of V_DIV_SCALE (documentation of the instruction set): denormals are scaled, where the emulator has NaN for them and
# leaves a large divisor and a small quotient as they are. V_DIV_FMAS undoes the scaling in one rounding. V_DIV_FIXUP has 0 below the least denormal. Per size of a float: bits of the fraction,
# least exponent of a normal number, distance of exponents from which on the quotient is near the largest number, what is a tiny numerator, the scale.
DIVISIONS = {32: (23, -126, 96, 23, 64), 64: (52, -1022, 768, 53, 128)}


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


class Corrections:
    """Mixed into the driver's Emu. `_step` gives for the instruction at an address: the function, the buffers it takes, whether it is a barrier, a
    text. Buffers: 0 scalars, 1 vectors, 2 memory, 3 shared, 4 private, 5 accumulators."""

    share = 0, 1   # which workgroups are this process's: every one of `share[1]` whose number leaves share[0]

    def forget_memory(self):
        """In a new process: registers of earlier waves, which the emulator keeps for the next ones, are memory that processes share."""
        self.emu.Device["CPU"].allocator.free_cache()

    def _step(self, pc, arch):
        w, w1 = words_at(pc, 2)
        if w >> 26 == 0x36:
            found = self.shared_access(pc, arch, w, w1)
            if found: return found
        if w >> 26 == 0x37 or w >> 24 == 0xEE:
            found = self.global_access(pc, arch, w, w1)
            if found: return found
        if arch != "cdna" and w >> 26 == (0x38 if arch == "rdna3" else 0x31):
            found = self.buffer_access(pc, arch, w, w1)
            if found: return found
        if w >> 25 == 0x3F or w >> 26 == (0x34 if arch == "cdna" else 0x35):
            found = self.to_even(pc, arch, w, w1) or self.float_parts(pc, arch, w, w1) or self.division(pc, arch, w, w1)
            if found: return found
        if arch == "cdna":
            if not w >> 31 and w & 511 not in (SOURCE_SDWA, SOURCE_DPP):
                found = self.half_words(pc, arch, w, w1)
                if found: return found
        return super()._step(pc, arch)

    def refuse(self, what, pc):
        raise self.driver.Trap("%s at %#x: the emulator has it wrong" % (what, pc))

    def decoded(self, pc, arch): return self.emu.decode_inst(bytes((ctypes.c_char * 16).from_address(pc).raw), arch)
    def name_of(self, pc, arch): return self.decoded(pc, arch).op.name

    # -- loads from shared memory into half a register: the emulator clears the other half, and puts what belongs into the upper one into the lower
    def shared_access(self, pc, arch, w, w1):
        name = self.name_of(pc, arch)
        if arch == "cdna" and w >> 25 & 1 and not name.startswith("DS_READ"): self.refuse(name + " with its operand in an accumulator register", pc)
        if "_D16" not in name or not name.startswith(("DS_LOAD", "DS_READ")): return None
        kind = {"U8": ctypes.c_uint8, "I8": ctypes.c_int8, "U16": ctypes.c_uint16}[name.split("_")[2]]
        offset, address, to, high = w & 0xFFFF, w1 & 255, w1 >> 24, name.endswith("_HI")
        lanes, file = (64 if arch == "cdna" else 32), 5 if arch == "cdna" and w >> 25 & 1 else 1
        first, low, following = self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + 8

        def run(scalars, vectors, shared, target):
            s, at, out = words_at(scalars.value, 260), words_at(vectors.value + 4 * lanes * address, lanes), words_at(target.value + 4 * lanes * to, lanes)
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            values = [kind.from_address(shared.value + (at[i] + offset & 0xFFFFFFFF)).value & 0xFFFF if active >> i & 1 else 0 for i in range(lanes)]
            for i in range(lanes):
                if active >> i & 1: out[i] = out[i] & 0xFFFF | values[i] << 16 if high else out[i] & 0xFFFF0000 | values[i]
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0, 1, 3, file), False, "%s v%d, v%d offset:%d" % (name.lower(), to, address, offset)

    # -- accesses of global memory
    def fields(self, pc, arch, w, w1):
        """Size of the instruction; numbers of base (scalar), result, data and address registers; offset; whether an atomic returns what was there."""
        if arch == "rdna4":
            w2 = words_at(pc, 3)[2]
            return 12, w & 127, w1 & 255, w1 >> 23 & 255, w2 & 255, signed(w2 >> 8, 24), w1 >> 20 & 1
        return 8, w1 >> 16 & 127, w1 >> 24, w1 >> 8 & 255, w1 & 255, signed(w & 8191, 13), w >> (16 if arch == "cdna" else 14) & 1

    def global_access(self, pc, arch, w, w1):
        name = self.name_of(pc, arch)
        in_accumulators = arch == "cdna" and w1 >> 23 & 1
        if "ATOMIC" in name and in_accumulators: self.refuse(name + " with its operand in an accumulator register", pc)
        if name in WIDE_ATOMICS: return self.wide_atomic(pc, arch, w, w1, name)
        if name in HALF_LOADS or name in STORES: return self.misaligned(pc, arch, w, w1, name, 5 if in_accumulators else 1)
        return None

    # compare and swap of 64 bits: the emulator says that it succeeded and stores nothing; f64 sums: it returns the wrong old value
    def wide_atomic(self, pc, arch, w, w1, name):
        size, base, to, data, at, offset, returns = self.fields(pc, arch, w, w1)
        lanes, first, low, following = (64 if arch == "cdna" else 32), self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + size
        is_sum = "ADD" in name

        def run(scalars, vectors):
            s, v = words_at(scalars.value, 260), words_at(vectors.value, 256 * lanes)
            wide = lambda register, lane: v[register * lanes + lane] | v[(register + 1) * lanes + lane] << 32
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            for i in range(lanes):
                if not active >> i & 1: continue
                address = (s[base] | s[base + 1] << 32) + v[at * lanes + i] if base < 124 else wide(at, i)
                cell = ctypes.c_uint64.from_address(address + offset)
                old = cell.value
                if is_sum: cell.value = bits_of(as_double(old) + as_double(wide(data, i)))
                elif old == wide(data + 2, i): cell.value = wide(data, i)
                if returns: v[to * lanes + i], v[(to + 1) * lanes + i] = old & 0xFFFFFFFF, old >> 32
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0, 1), False, name.lower()

    # addresses that are not multiples of the size: the emulator drops their low bits in loads of 16 bits and in stores of 32 and more
    def misaligned(self, pc, arch, w, w1, name, file):
        size, base, to, data, at, offset, _ = self.fields(pc, arch, w, w1)
        call, used, barrier, text = super()._step(pc, arch)
        lanes, first, low, following = (64 if arch == "cdna" else 32), self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + size
        half, count = HALF_LOADS.get(name), STORES.get(name)
        bits = 1 if half else 3

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            below, start = v[at * lanes:(at + 1) * lanes], offset + (s[base] if base < 124 else 0)
            if not any(start + x & bits for x in below): return call(*[buffers[i] for i in used])
            data_file, active = words_at(buffers[file].value, 256 * lanes), s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            above = v[(at + 1) * lanes:(at + 2) * lanes] if base >= 124 else [s[base + 1]] * lanes
            for i in range(lanes):
                if not active >> i & 1: continue
                address = (below[i] | above[i] << 32) + offset if base >= 124 else (s[base] | above[i] << 32) + below[i] + offset
                if half:
                    value, place = half[0].from_address(address).value, to * lanes + i
                    data_file[place] = value & 0xFFFFFFFF if not half[1] else data_file[place] & ~(0xFFFF << half[2]) | (value & 0xFFFF) << half[2]
                else:
                    for k in range(count): ctypes.c_uint32.from_address(address + 4 * k).value = data_file[(data + k) * lanes + i]
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0, 1, 2, 3, 4, 5), barrier, text

    # -- buffer instructions of gfx11 and gfx12, which the emulator does not know: raw ones, with an offset in a vector register or none. Out of range is
    #    an access that does not lie whole below the number of records: it reads zero and stores nothing.
    def buffer_access(self, pc, arch, w, w1):
        if arch == "rdna4":
            w2 = words_at(pc, 3)[2]
            size, code, table = 12, w >> 14 & 255, self.emu.ir4.VBUFFEROp
            scalar, tfe, data, resource, offen, idxen, at, offset = w & 127, w >> 22 & 1, w1 & 255, w1 >> 9 & 511, w1 >> 30 & 1, w1 >> 31, w2 & 255, signed(w2 >> 8, 24)
        else:
            size, code, table = 8, w >> 18 & 255, self.emu.ir3.MUBUFOp
            scalar, tfe, data, resource, offen, idxen, at, offset = w1 >> 24, w1 >> 21 & 1, w1 >> 8 & 255, (w1 >> 16 & 31) * 4, w1 >> 22 & 1, w1 >> 23 & 1, w1 & 255, w & 4095
        name = next((op.name for op in table if op.value == code), "buffer instruction %d" % code)
        words = name.split("_")
        if name.endswith("_INV"): return None   # of a cache
        if words[1] not in ("LOAD", "STORE") or words[-1] not in BUFFER_SIZES or "LDS" in words: self.refuse(name, pc)
        if tfe or idxen or scalar not in (NULL_SCALAR, ZERO) or offset < 0: self.refuse(name + " in this form", pc)
        bytes_each, stores, half, high = BUFFER_SIZES[words[-1]], words[1] == "STORE", "D16" in words, "HI" in words
        first, low, following = self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + size
        driver = self.driver

        def run(scalars, vectors):
            s, v = words_at(scalars.value, 260), words_at(vectors.value, 256 * 32)
            base, upper, records, flags = s[resource:resource + 4]
            if upper >> 16 or flags >> 28 != 3: raise driver.Trap("%s: a resource with a stride, or not checked by offset: %#x %#x" % (name, upper, flags))
            base |= upper << 32
            for i in range(32):
                if not s[first] >> i & 1: continue
                below = (v[at * 32 + i] if offen else 0) + offset
                if below >> 32: raise driver.Trap("%s: the offset %#x has more than 32 bits" % (name, below))
                live, places = below + bytes_each <= records, [(data + k) * 32 + i for k in range((bytes_each + 3) // 4)]
                if stores and live:
                    value = b"".join(struct.pack("<I", v[p]) for p in places)
                    ctypes.memmove(base + below, value[2:] if high else value, bytes_each)
                elif not stores:
                    value = ctypes.string_at(base + below, bytes_each) if live else bytes(bytes_each)
                    if bytes_each >= 4:
                        for p, word in zip(places, struct.unpack("<%dI" % len(places), value)): v[p] = word
                        continue
                    number, p = int.from_bytes(value, "little", signed="I8" in words or "I16" in words), places[0]
                    v[p] = (v[p] & 0xFFFF | (number & 0xFFFF) << 16 if high else v[p] & 0xFFFF0000 | number & 0xFFFF) if half else number & 0xFFFFFFFF
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0, 1), False, name.lower()

    # -- parts of floats
    def float_parts(self, pc, arch, w, w1):
        name, short = self.name_of(pc, arch), w >> 25 == 0x3F
        compute = FLOATS.get(name.removesuffix("_E32").removesuffix("_E64"))
        first_source, second, to = (w & 511, 0, w >> 17 & 255) if short else (w1 & 511, w1 >> 9 & 511, w & 255)
        if not compute or SOURCE_SDWA <= first_source <= SOURCE_LITERAL: return None
        if not short and (w & 0x8300 or w1 >> 27 & 3 or second == SOURCE_LITERAL): self.refuse("clamp, scale, or a literal of " + name, pc)
        negated, following, lanes = 0 if short else w1 >> 29 & 1, pc + (4 if short else 8), 64 if arch == "cdna" else 32
        first, low = self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX

        def run(scalars, vectors):
            s, v = words_at(scalars.value, 260), words_at(vectors.value, 256 * lanes)
            read = lambda source, i: v[(source - 256) * lanes + i] if source >= 256 else s[source]
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            for i in range(lanes):
                if active >> i & 1: v[to * lanes + i] = compute(read(first_source, i) ^ negated << 31, read(second, i))
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0, 1), False, name.lower()

    # -- scaling in divisions
    def division(self, pc, arch, w, w1):
        name = self.name_of(pc, arch).removesuffix("_E64")
        is_scale = name.startswith("V_DIV_SCALE_F")
        is_fixup = name.startswith("V_DIV_FIXUP_F") and not name.endswith("16")
        if not is_scale and not is_fixup and not name.startswith("V_DIV_FMAS_F"): return None
        size, sources, to = int(name[-2:]), [w1 >> i & 511 for i in (0, 9, 18)], w & 255
        if w >> 15 & 1 or w1 >> 27 & 3 or SOURCE_LITERAL in sources: self.refuse("clamp, scale, or a literal of " + name, pc)
        if not is_scale and w >> 8 & 7: self.refuse("magnitudes of " + name, pc)
        lanes, first, condition = 64 if arch == "cdna" else 32, self.emu.EXEC_LO.offset, w >> 8 & 127 if is_scale else VCC
        call, used, barrier, text = super()._step(pc, arch)
        words, signs = size // 32, [w1 >> 29 + i & 1 for i in range(3)]

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)

            def read(x, i):
                if size == 64 and 128 <= x < 256: return wide_constant(x)
                return sum((v[(x - 256 + k) * lanes + i] if x >= 256 else s[x + k]) << 32 * k for k in range(words))

            mask = lambda at: s[at] | (s[at + 1] << 32 if lanes == 64 else 0)
            active, was_scaled = mask(first), mask(condition)
            operands = {i: [read(x, i) ^ sign << size - 1 for x, sign in zip(sources, signs)] for i in range(lanes) if active >> i & 1}
            call(*[buffers[i] for i in used])
            held = mask(condition)
            for i, values in operands.items():
                if is_scale:
                    result, is_scaled = division_scale(size, *values)
                    held = held & ~(1 << i) | is_scaled << i
                elif is_fixup: result = division_fixup(size, *values)
                else: result = division_multiply_add(size, was_scaled >> i & 1, *values)
                for k in range(words if result is not None else 0): v[(to + k) * lanes + i] = result >> 32 * k & 0xFFFFFFFF
            if is_scale:
                s[condition] = held & 0xFFFFFFFF
                if lanes == 64: s[condition + 1] = held >> 32

        return run, (0, 1, 2, 3, 4, 5), barrier, text

    # -- v_rndne: what rounds to -0 becomes +0
    def to_even(self, pc, arch, w, w1):
        name, short = self.name_of(pc, arch), w >> 25 == 0x3F
        if "RNDNE" not in name: return None
        source, to = (w & 511, w >> 17 & 255) if short else (w1 & 511, w & 255)
        bits, halves = int(name.split("_")[2][1:]), 0 if short else w >> 11 & 9
        if bits == 16 and arch != "cdna" and short:
            if source >= 384: source, halves = source - 128, 1
            if to >= 128: to, halves = to - 128, halves | 8
        if 128 <= source < 256: return None   # constants
        lanes, first = 64 if arch == "cdna" else 32, self.emu.EXEC_LO.offset
        done = self.half_words(pc, arch, w, w1) if short and arch == "cdna" else None
        call, used, barrier, text = done or super()._step(pc, arch)
        magnitude, negated = (0, 0) if short else (w >> 8 & 1, w1 >> 29 & 1)
        from_high, to_high, wide = halves & 1, halves >> 3, bits == 64

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            place = 15 if bits == 16 and not from_high else 31
            read = (lambda i: v[(source - 256 + wide) * lanes + i]) if source >= 256 else (lambda i: s[source + wide])
            signs = [(not magnitude and read(i) >> place & 1) ^ negated for i in range(lanes)]
            call(*[buffers[i] for i in used])
            for i in range(lanes):
                if not active >> i & 1 or not signs[i]: continue
                at = (to + wide) * lanes + i
                if bits == 16:
                    shift = 16 if to_high else 0
                    if not v[at] >> shift & 0x7FFF: v[at] |= 0x8000 << shift
                elif not v[at] & 0x7FFFFFFF and not (wide and v[to * lanes + i]): v[at] |= 1 << 31

        return run, (0, 1, 2, 3, 4, 5), barrier, text

    # -- 16-bit instructions in their short form: the emulator takes registers from v128 on as upper halves. That is so on gfx11 and gfx12, not on
    #    gfx9; in the long form it is so nowhere.
    def long_form(self, arch, inst, w, source):
        """The address of the instruction's long form with another first operand."""
        gfx9 = arch == "cdna"
        kind, left, to = type(inst).__name__.split("_")[0], w >> 9 & 255, w >> 17 & 255
        if kind == "VOP1": op, target, sources = (0x140 if gfx9 else 0x180) + (w >> 9 & 255), to, source
        elif kind == "VOP2": op, target, sources = 0x100 + (w >> 25 & 63), to, source | (256 + left) << 9
        else: op, target, sources = w >> 17 & 255, VCC, source | (256 + left) << 9
        code = self.driver.Buf(data=struct.pack("<6I", (0x34 if gfx9 else 0x35) << 26 | op << 16 | target, sources, *[NOP] * 4))
        self.keep.append(code)
        (program, runtime), _ = self.emu._decode_at(code.addr, arch)
        return runtime.fxn, tuple(program.arg.globals), code.addr

    def half_words(self, pc, arch, w, w1):
        inst = self.decoded(pc, arch)
        kind, source, left, to = type(inst).__name__, w & 511, w >> 9 & 255, w >> 17 & 255
        if kind not in ("VOP1", "VOP2", "VOPC") or 16 not in inst.canonical_op_bits.values(): return None
        registers = {"VOP1": (to,), "VOP2": (left, to), "VOPC": (left,)}[kind]
        if max(registers) < 128 and source < 384: return None
        if "MADMK" in inst.op.name or "MADAK" in inst.op.name: self.refuse(inst.op.name, pc)
        size = 8 if source == SOURCE_LITERAL else 4
        call, used, at = self.long_form(arch, inst, w, LITERAL_SLOT if size == 8 else source)
        following, literal, low = pc + size, w1, self.emu.PC_LO_IDX

        def run(*buffers):
            s = words_at(buffers[0].value, 260)
            if size == 8: s[LITERAL_SLOT] = literal
            s[low], s[low + 1] = at & 0xFFFFFFFF, at >> 32   # operands are read where the instruction lies
            call(*[buffers[i] for i in used])
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0, 1, 2, 3, 4, 5), False, "long form of " + repr(inst)

    # the driver runs an instruction with exchange between lanes on a copy of the operand in a high register
    def _lanes_decode(self, pc, w, w1, arch):
        found = super()._lanes_decode(pc, w, w1, arch)
        if not found or w >> 31 or found[0] != self._dpp: return found
        inst = self.decoded(pc, arch)
        if 16 not in inst.canonical_op_bits.values(): return found
        is_vop1, is_compare = w >> 25 == 0x3F, w >> 25 == 0x3E
        if arch != "cdna" and max(0 if is_vop1 else w >> 9 & 255, 0 if is_compare else w >> 17 & 255) >= 128: self.refuse(repr(inst), pc)
        facts = list(found[1])
        facts[0], facts[1], facts[8] = self.long_form(arch, inst, w, 256 + facts[3])
        return (found[0], facts) + tuple(found[2:])


def load():
    spec = importlib.util.spec_from_file_location("amdrun", os.environ["KILN_AMDRUN"])
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    driver.Emu = type("Emu", (Corrections, scheduler.Scheduler, driver.Emu), {"driver": driver})
    return driver


if __name__ == "__main__":
    load().main()
