# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Denormals of f32 that a kernel flushes: the mode that it starts with, and the instructions that change it. Mixed into the driver's Emu (emulator.py).

The emulator has one mode for a launch and for all types, and does not know the instructions that change it. Here it always keeps denormals, and each wave has a mode
of f32. An instruction that computes with f32 finds its denormal operands as zeros with their sign, and its results are made such zeros, as the mode says. Moves, choices by a
mask, bit operations and tests of a class compute nothing and keep what they find. Denormals of f16 and f64 are kept: a kernel that asks for something else is refused.
"""
from operands import ALL, SOURCE_LITERAL, words_at

MODE_SLOT = 210        # of the emulator's scalar file, which no instruction reads: bit 0, operands keep denormals; bit 1, results do
KEPT, HWREG_MODE, DENORMALS_AT = 3, 1, 4
VCC, FIRST_CONSTANT, LAST_POSITIVE = 106, 128, 192   # the integers 0 to 64 as operands
EXPONENT, MAGNITUDE, SIGN = 0x7F800000, 0x7FFFFFFF, 0x80000000


def is_denormal(bits): return not bits & EXPONENT and bits & MAGNITUDE


class Form:
    """Where an instruction that computes with f32 has its operands and results: numbers of scalar registers; from 256 on of vector registers."""

    def __init__(self): self.sources, self.results, self.written, self.other, self.half = [], [], [], [], None   # `other`: results of the half of a pair that is no f32


class Modes:
    flushes = False    # whether the kernel may flush

    def launch(self, module, name, grid, block, args, dyn_lds=0):
        start, find = module.kd(name)["r1"] >> 16 & 15, module.kd
        if start >> 2 != KEPT: raise self.driver.Trap("the kernel flushes denormals of f16 and f64, which is not emulated")
        self.mode_at_start, self.flushes = start & 3, start & 3 != KEPT
        module.kd = lambda which: dict(find(which), r1=find(which)["r1"] | KEPT << 16)
        try: return super().launch(module, name, grid, block, args, dyn_lds)
        finally: del module.kd

    def mode_change(self, pc, arch, w, w1):
        """S_DENORM_MODE of gfx11 and gfx12, S_SETREG of the denormals of all."""
        name = self.name_of(pc, arch)
        if name == "S_DENORM_MODE": size, to, count = 4, w & 15, 4
        elif name == "S_SETREG_IMM32_B32":
            if (w & 63, w >> 6 & 31) != (HWREG_MODE, DENORMALS_AT): self.refuse("a change of another part of the mode", pc)
            size, to, count = 8, w1, (w >> 11 & 31) + 1
        else: return None
        if count < 2 or count > 2 and to >> 2 & 3 != KEPT: self.refuse("a change of the mode of f16 and f64", pc)
        if not self.flushes and to & 3 != KEPT: self.refuse("a mode that flushes, of a kernel that begins without one", pc)
        following, low, mode = pc + size, self.emu.PC_LO_IDX, to & 3

        def run(scalars):
            s = words_at(scalars.value, 260)
            s[MODE_SLOT] = mode
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, (0,), False, name.lower()

    def float_form(self, pc, arch, w, w1):
        """The Form of an instruction that computes with f32, or nothing."""
        inst, form = self.decoded(pc, arch), Form()
        lanes, short = 64 if arch == "cdna" else 32, not w >> 31
        if type(inst).__name__.startswith("VOPD"): return self.pair_form(inst, w, w1, words_at(pc, 3)[2])
        name, kinds = inst.op.name, {which: str(kind[0]) for which, kind in inst.canonical_operands.items()}
        if "_CLASS_" in name or not name.startswith(("V_", "S_")): return None
        if name.startswith("V_DOT2"): self.refuse(name + " in a kernel that flushes denormals", pc)
        is_mix = name.startswith(("V_FMA_MIX", "V_MAD_MIX"))
        if name.startswith("S_"):
            fields, to, is_one = [w & 255, w >> 8 & 255], w >> 16 & 127, w >> 23 == 0x17D
            form.written = [] if name.startswith("S_CMP") else [to]
            fields, literal = fields[:1] if is_one else fields, w1
        elif short:
            is_one, is_compare = w >> 25 == 0x3F, w >> 25 == 0x3E
            fields, to, literal = [w & 511] + ([] if is_one else [256 + (w >> 9 & 255)]), 256 + (w >> 17 & 255), w1
            form.written = [VCC, VCC + 1][:lanes // 32] if is_compare else [to]
        else:
            fields, to, literal = [w1 >> at & 511 for at in (0, 9, 18)], 256 + (w & 255), words_at(pc, 3)[2]
            if name.startswith("V_S_"): to -= 256
            form.written = [to] if "_CMP" not in name else [(w & 127) + k for k in range(lanes // 32)]
            if name.startswith("V_DIV_SCALE"): form.written += [(w >> 8 & 127) + k for k in range(lanes // 32)]
        is_half = [w1 >> 27 & 1, w1 >> 28 & 1, w >> 14 & 1]
        for i, field in enumerate(fields):
            kind = kinds.get("s%d" % i, "")
            if is_mix: count = 0 if is_half[i] else 1
            else: count = 2 if "PK2_F32" in kind else 1 if "NUM_F32" in kind else 0
            if count: form.sources += [field + k for k in range(count)]
        result = kinds.get("d", "")
        if "F16" in result and to >= 256 and arch != "cdna":   # the other half of the register stays
            half = w >> 24 & 1 if short else w >> 14 & 1
            if short: to = to & ~128
            form.written, form.half = [to], (to, half)
        if "PK2_F32" in result: form.results = [to, to + 1]
        elif "NUM_F32" in result and not name.startswith("V_CMP"): form.results = [to]
        if inst.canonical_op_bits.get("d") == 64 and to >= 256 and form.written == [to]: form.written.append(to + 1)
        if "FMAC" in name or "_MAC_" in name: form.sources += form.results
        if not form.sources and not form.results: return None
        self.look_at_constants(form, literal, name, pc)
        return form

    def look_at_constants(self, form, literal, name, pc):
        """Constants that are denormals of f32, which the scalar file holds or the code: nothing here changes them."""
        for field in form.sources:
            if field == SOURCE_LITERAL and is_denormal(literal) or FIRST_CONSTANT < field <= LAST_POSITIVE:
                self.refuse(name + " of a constant that is a denormal, in a kernel that flushes", pc)
        form.sources = [f for f in form.sources if f < FIRST_CONSTANT or f >= 256]

    def pair_form(self, inst, w, w1, literal):
        form, to_x = Form(), w1 >> 24 & 255
        to_y = (w1 >> 17 & 127) << 1 | ~to_x & 1
        for name, first, second, to in ((inst.opx.name, w & 511, w >> 9 & 255, to_x), (inst.opy.name, w1 & 511, w1 >> 9 & 255, to_y)):
            form.written.append(256 + to)
            if not name.endswith("_F32"):
                form.other.append(256 + to)
                continue
            form.results.append(256 + to)
            form.sources += [first, 256 + second] + ([256 + to] if "FMAC" in name else [])
            if "FMAAK" in name or "FMAMK" in name: form.sources.append(SOURCE_LITERAL)
        if not form.results: return None
        self.look_at_constants(form, literal, inst.opx.name, 0)
        return form

    def in_mode(self, found, pc, arch, w, w1):
        """The step of an instruction as the wave's mode has it."""
        form = self.float_form(pc, arch, w, w1) if callable(found[0]) else None
        if not form: return found
        call, used, barrier, text = found
        lanes, first = 64 if arch == "cdna" else 32, self.emu.EXEC_LO.offset

        def run(*buffers):
            s, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes)
            mode, arguments = s[MODE_SLOT], [buffers[i] for i in used]
            if mode == KEPT: return call(*arguments)
            active = s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            place = lambda register: (v, (register - 256) * lanes, lanes) if register >= 256 else (s, register, 1)
            hidden = []
            for register in form.sources if not mode & 1 else ():
                file, at, count = place(register)
                hidden += [(file, at + i, bits) for i, bits in enumerate(file[at:at + count]) if is_denormal(bits)]
            kept = None
            if hidden and form.other:   # the other half of the pair sees the operands as they are
                before = [(r, v[(r - 256) * lanes:(r - 255) * lanes]) for r in form.written]
                counter = s[self.emu.PC_LO_IDX], s[self.emu.PC_LO_IDX + 1]
                call(*arguments)
                kept = [(r, v[(r - 256) * lanes:(r - 255) * lanes]) for r in form.other]
                for r, row in before: v[(r - 256) * lanes:(r - 255) * lanes] = row
                s[self.emu.PC_LO_IDX], s[self.emu.PC_LO_IDX + 1] = counter
            for file, at, bits in hidden: file[at] = bits & SIGN
            call(*arguments)
            written = set()
            for register in form.written:
                file, at, count = place(register)
                written |= {(file is v, at + i) for i in range(count) if count == 1 or active >> i & 1}
            for file, at, bits in hidden:
                if (file is v, at) not in written: file[at] = bits
                elif form.half and at // lanes == form.half[0] - 256:
                    other = 0xFFFF << 16 * (1 - form.half[1])
                    file[at] = file[at] & ~other & 0xFFFFFFFF | bits & other
            for register, row in kept or (): v[(register - 256) * lanes:(register - 255) * lanes] = row
            for register in form.results if not mode & 2 else ():
                file, at, count = place(register)
                for i in range(count):
                    if (count == 1 or active >> i & 1) and is_denormal(file[at + i]): file[at + i] &= SIGN

        return run, ALL, barrier, text
