# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Corrections for operands and results that the emulator or its driver gets wrong or refuses. Mixed into the driver's Emu (emulator.py).

Staged: an instruction whose operands come from other lanes (DPP), from part of a register (SDWA) or from accumulator registers runs on copies of them in vector
registers that are put back afterwards. The instruction that then runs is a plain one, so that the other corrections hold for it, too.
"""
import ctypes, struct

SOURCE_LITERAL, SOURCE_SDWA, SOURCE_DPP = 255, 249, 250
VCC, NOP, ALL = 106, 0xBF800000, (0, 1, 2, 3, 4, 5)
FIRST, SECOND, RESULT = 250, 252, 254         # registers, in pairs, that hold the copies
NOT_CORRECTED = "V_MOV_B32 V_ADD_F32 V_SUB_F32 V_SUBREV_F32 V_MUL_F32 V_MAX_F32 V_MIN_F32 V_MAX_NUM_F32 V_MIN_NUM_F32 V_FMAC_F32".split()
WIDTHS = (8, 8, 8, 8, 16, 16, 32)             # of SDWA's selections, and where each begins
BEGINS = (0, 8, 16, 24, 0, 16, 0)


def words_at(address, count): return (ctypes.c_uint32 * count).from_address(address)


def half_float(bits): return struct.unpack("<H", struct.pack("<e", struct.unpack("<f", struct.pack("<I", bits))[0]))[0]


class Staged:
    def staged(self, pc, arch, w, w1):
        """The step of an instruction with DPP or SDWA, or nothing where the driver's own way is right."""
        inst = self.decoded(pc, arch)
        sizes, name = inst.canonical_op_bits, inst.op.name.removesuffix("_E32")
        is_sdwa = w & 511 == SOURCE_SDWA
        plain = name in NOT_CORRECTED or name.startswith("V_") and name[-4:] in ("_I32", "_U32", "_B32") and "_CVT_" not in name and "FREXP" not in name and "CNDMASK" not in name
        if not is_sdwa and not w1 >> 20 & 15 and plain and not (self.flushes and "_F32" in name): return None
        kind = "VOP1" if w >> 25 == 0x3F else "VOPC" if w >> 25 == 0x3E else "VOP2"
        if kind == "VOPC" and not is_sdwa: self.refuse("a comparison with exchange between lanes", pc)
        if is_sdwa and w1 >> 13 & 7 and kind != "VOPC": self.refuse("clamp or scale of %s in part of a word" % name, pc)
        width = {"to": 64 if kind == "VOPC" else sizes.get("d", 32), 0: sizes.get("s0", 32), 1: sizes.get("s1", 32)}
        call, used, address = self.plain_form(pc, arch, w, w1, kind, name, is_sdwa)
        return self.staged_run(arch, pc, w, w1, kind, width, is_sdwa, call, used, address), ALL, False, ("sdwa " if is_sdwa else "dpp ") + name.lower()

    def plain_form(self, pc, arch, w, w1, kind, name, is_sdwa):
        """Function, buffers and address of the long form on the copies."""
        gfx9 = arch == "cdna"
        to, op = 256 + RESULT - 256, {"VOP1": (0x140 if gfx9 else 0x180) + (w >> 9 & 255), "VOP2": 0x100 + (w >> 25 & 63), "VOPC": w >> 17 & 255}[kind]
        sources = 256 + FIRST | (256 + SECOND if kind != "VOP1" else 0) << 9
        if kind == "VOPC": to = w1 >> 8 & 127 if w1 >> 15 & 1 else VCC
        if kind == "VOP2" and ("_CO_" in name or "ADDC" in name or "SUBB" in name): to |= VCC << 8
        if kind == "VOP2" and ("CNDMASK" in name or "_CI_" in name or "ADDC" in name or "SUBB" in name): sources |= VCC << 18
        code = self.driver.Buf(data=struct.pack("<6I", (0x34 if gfx9 else 0x35) << 26 | op << 16 | to, sources, *[NOP] * 4))
        self.keep.append(code)
        call, used, _, _ = self._step(code.addr, arch)
        return call, used, code.addr

    def operand_reader(self, arch, is_scalar, number, size, negative, magnitude, select):
        """Reads an operand: of 16 bits on gfx11 and gfx12 the highest bit of the number says which half."""
        lanes, shift = 64 if arch == "cdna" else 32, 0
        if size == 16 and arch != "cdna": number, shift = number & 127, 16 * (number >> 7)
        sign, words = 1 << size - 1, (size + 31) // 32

        def read(s, v, lane):
            if is_scalar and number >= 240 and size == 16: raw = half_float(s[number])
            else: raw = sum((s[number + k] if is_scalar else v[(number + k) * lanes + lane]) << 32 * k for k in range(words)) >> shift
            if select:
                which, extend = select
                raw = raw >> BEGINS[which] & (1 << WIDTHS[which]) - 1
                if extend and raw >> WIDTHS[which] - 1: raw |= -1 << WIDTHS[which]
            raw &= (1 << size) - 1
            if magnitude: raw &= sign - 1
            return raw ^ (sign if negative else 0)

        return read

    def staged_run(self, arch, pc, w, w1, kind, width, is_sdwa, call, used, address):
        lanes, first, low, following = 64 if arch == "cdna" else 32, self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + 8
        left, to, half = w >> 9 & 255, w >> 17 & 255, 0
        if width["to"] == 16 and arch != "cdna" and not is_sdwa: to, half = to & 127, 16 * (to >> 7)
        if is_sdwa:
            select = [(w1 >> at & 7, w1 >> at + 3 & 1) for at in (16, 24)]
            read0 = self.operand_reader(arch, w1 >> 23 & 1, w1 & 255, width[0], w1 >> 20 & 1, w1 >> 21 & 1, select[0])
            read1 = self.operand_reader(arch, w1 >> 31, left, width[1], w1 >> 28 & 1, w1 >> 29 & 1, select[1])
            sources = list(range(lanes))
        else:
            read0 = self.operand_reader(arch, 0, w1 & 255, width[0], w1 >> 20 & 1, w1 >> 21 & 1, None)
            read1 = self.operand_reader(arch, 0, left, width[1], w1 >> 22 & 1, w1 >> 23 & 1, None)
            sources = self.exchanged(arch, w1, lanes)
        least = 1 << width[0] - 1 if not is_sdwa and w1 >> 20 & 1 else 0   # what a lane without a source reads: 0 with the operand's sign
        inactive, zero, place, unused = w1 >> 18 & 1, w1 >> 19 & 1, w1 >> 8 & 7, w1 >> 11 & 3
        words_to = (width["to"] + 31) // 32

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            rows = {}   # lanes that get a result: operands, and what the result's registers hold
            for lane in range(lanes):
                if not active >> lane & 1 or sources[lane] is None: continue
                at, found = sources[lane], least
                if is_sdwa or at >= 0 and (inactive or active >> at & 1): found = read0(s, v, at)
                elif not zero: continue
                rows[lane] = found, read1(s, v, lane) if kind != "VOP1" else 0, [v[(to + k) * lanes + lane] for k in range(words_to if kind != "VOPC" else 0)]
            kept = v[FIRST * lanes:256 * lanes]
            for lane, (a, b, old) in rows.items():
                for register, value in ((FIRST, a), (SECOND, b)): v[register * lanes + lane], v[(register + 1) * lanes + lane] = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
                for k, x in enumerate(old): v[(RESULT + k) * lanes + lane] = x >> half
            running = sum(1 << lane for lane in rows)
            s[first] = running & 0xFFFFFFFF
            if lanes == 64: s[first + 1] = running >> 32
            s[low], s[low + 1] = address & 0xFFFFFFFF, address >> 32
            call(*[buffers[i] for i in used])
            results = {lane: [v[(RESULT + k) * lanes + lane] for k in range(words_to)] for lane in rows}
            s[first] = active & 0xFFFFFFFF
            if lanes == 64: s[first + 1] = active >> 32
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32
            v[FIRST * lanes:256 * lanes] = kept
            if kind == "VOPC": return
            for lane, (_, _, old) in rows.items():
                result = results[lane]
                if is_sdwa: result = [placed(result[0] & (1 << width["to"]) - 1, old[0], place, unused)]
                elif width["to"] == 16 and arch != "cdna": result = [old[0] & ~(0xFFFF << half) | (result[0] & 0xFFFF) << half]
                for k, x in enumerate(result): v[(to + k) * lanes + lane] = x

        return run

    def staged_long(self, pc, arch, w, w1):
        """The long form with DPP, of gfx11 and gfx12: the first operand is copied, the rest is left as it is."""
        d, sizes, lanes = words_at(pc, 3)[2], self.decoded(pc, arch).canonical_op_bits, 32
        used = {d & 255, w & 255} | {(w1 >> at & 511) - 256 for at in (9, 18)}
        copy = next(r for r in range(254, 0, -2) if not used & {r - 1, r, r + 1})
        code = self.driver.Buf(data=struct.pack("<6I", w, w1 & ~511 | 256 + copy, *[NOP] * 4))
        self.keep.append(code)
        call, buffers_used, _, text = self._step(code.addr, arch)
        sources, words = self.exchanged(arch, d, lanes), (sizes.get("s0", 32) + 31) // 32
        inactive, zero, following, first, low = d >> 18 & 1, d >> 19 & 1, pc + 12, self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            active, rows = s[first], {}
            for lane, at in enumerate(sources):
                if not active >> lane & 1 or at is None: continue
                if at >= 0 and (inactive or active >> at & 1): rows[lane] = [v[((d & 255) + k) * lanes + at] for k in range(words)]
                elif zero: rows[lane] = [0] * words
            kept = v[copy * lanes:(copy + 2) * lanes]
            for lane, values in rows.items():
                for k, x in enumerate(values): v[(copy + k) * lanes + lane] = x
            running = sum(1 << lane for lane in rows)
            s[first], s[low], s[low + 1] = running, code.addr & 0xFFFFFFFF, code.addr >> 32
            call(*[buffers[i] for i in buffers_used])
            if s[first] == running: s[first] = active
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32
            v[copy * lanes:(copy + 2) * lanes] = kept

        return run, ALL, False, "dpp " + text

    def exchanged(self, arch, w1, lanes):
        """For each lane the one that it reads; -1 where there is none; None where its result stays as it is."""
        banks, rows = w1 >> 24 & 15, w1 >> 28
        out = []
        for lane in range(lanes):
            at = self._dpp_src(w1 >> 8 & 511, lane, lanes, arch)
            out.append(None if not rows >> lane // 16 & 1 or not banks >> lane // 4 % 4 & 1 else -1 if at is None else at)
        return out

    # -- accumulator registers as operands of atomics and of stores to shared memory: the emulator takes the vector registers of these numbers
    def with_accumulators(self, pc, w, w1, bit):
        """`bit` of the two words says that data lie in accumulator registers; fields of the second word: address, data, (second data), ..., result."""
        address, shared = w1 & 255, w >> 26 == 0x36
        base = 240 if address < 238 else 200
        fields = [(8, w1 >> 8 & 255, base), (24, w1 >> 24, base + 8)] + ([(16, w1 >> 16 & 255, base + 4)] if shared else [])
        words = w1 << 32 | w
        for at, _, stand_in in fields: words = words & ~(255 << 32 + at) | stand_in << 32 + at
        code = self.driver.Buf(data=struct.pack("<Q4I", words & ~(1 << bit), *[NOP] * 4))
        self.keep.append(code)
        call, used, _, text = self._step(code.addr, "cdna")
        low, following, lanes = self.emu.PC_LO_IDX, pc + 8, 64

        def run(*buffers):
            s, v, a = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes), words_at(buffers[5].value, 256 * lanes)
            kept = v[base * lanes:(base + 12) * lanes]
            for _, number, stand_in in fields:
                count = min(4, 256 - number)
                v[stand_in * lanes:(stand_in + count) * lanes] = a[number * lanes:(number + count) * lanes]
            s[low], s[low + 1] = code.addr & 0xFFFFFFFF, code.addr >> 32
            call(*[buffers[i] for i in used])
            _, number, stand_in = fields[1]
            count = min(4, 256 - number)
            a[number * lanes:(number + count) * lanes] = v[stand_in * lanes:(stand_in + count) * lanes]
            v[base * lanes:(base + 12) * lanes] = kept
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, ALL, False, "accumulators: " + text

    # -- shared memory at addresses that are not multiples of the size: the emulator drops their low bits
    def misaligned_shared(self, pc, arch, w, w1, name):
        is_load, suffix = name.startswith(("DS_LOAD", "DS_READ")), name.removesuffix("_D16_HI").rsplit("_", 1)[1]
        if not (is_load or name.startswith(("DS_STORE", "DS_WRITE"))) or suffix not in ("B16", "U16", "I16", "B32", "B64", "B96", "B128") or "XCHG" in name: return None
        size, two = int(suffix[1:]) // 8, "2ADDR" in name or name.startswith(("DS_READ2", "DS_WRITE2"))
        by = size * (64 if "64" in name.rsplit("_", 1)[0] else 1)
        parts = [(w & 255) * by, (w >> 8 & 255) * by] if two else [w & 0xFFFF]
        lanes, first, low, following = 64 if arch == "cdna" else 32, self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + 8
        file, address, words = 5 if arch == "cdna" and w >> 25 & 1 else 1, w1 & 255, (size + 3) // 4
        data = [w1 >> 24, (w1 >> 24) + words] if is_load else [w1 >> 8 & 255, w1 >> 16 & 255]
        call, used, barrier, text = super()._step(pc, arch)
        bits = (1 if size == 2 else 3 if size == 4 else 7 if size == 8 else 15) if size != 12 else 15

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            at = v[address * lanes:(address + 1) * lanes]
            if not any(x + p & bits for p in parts for x in at): return call(*[buffers[i] for i in used])
            active, d = s[first] | (s[first + 1] << 32 if lanes == 64 else 0), words_at(buffers[file].value, 256 * lanes)
            live = [lane for lane in range(lanes) if active >> lane & 1]
            for p, register in zip(parts, data):
                for lane in live:
                    place = buffers[3].value + (at[lane] + p & 0xFFFFFFFF)
                    if size == 2 and is_load: d[register * lanes + lane] = (ctypes.c_int16 if suffix == "I16" else ctypes.c_uint16).from_address(place).value & 0xFFFFFFFF
                    elif size == 2: ctypes.c_uint16.from_address(place).value = d[register * lanes + lane] >> (16 if name.endswith("_HI") else 0) & 0xFFFF
                    elif is_load:
                        for k in range(words): d[(register + k) * lanes + lane] = ctypes.c_uint32.from_address(place + 4 * k).value
                    else:
                        for k in range(words): ctypes.c_uint32.from_address(place + 4 * k).value = d[(register + k) * lanes + lane]
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, ALL, barrier, text


def placed(result, old, place, unused):
    """A result in part of a register (SDWA): the rest is zero, filled with the sign, or stays."""
    width, begin = WIDTHS[place], BEGINS[place]
    part = (result & (1 << width) - 1) << begin
    if unused == 2: return old & ~((1 << width) - 1 << begin) & 0xFFFFFFFF | part
    if unused == 1 and result >> width - 1 & 1: return part | 0xFFFFFFFF & -1 << width + begin
    return part
