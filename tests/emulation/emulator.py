#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulator's driver with corrections for what the emulator gets wrong (each shown by an object of one instruction; docs/emulation.md lists them).

As a program it takes the arguments of the driver. As a module: load() returns the driver, whose class Emu has the corrections.

An instruction that is not corrected and known to be wrong stops the run, so that no number is lost silently.
"""
import ctypes, fractions, importlib.util, math, os, struct, sys

import scheduler
from computed import Computed
from divisions import Divisions, as_double, bits_of
from modes import Modes
from operands import ALL, SOURCE_DPP, SOURCE_LITERAL, SOURCE_SDWA, Staged, words_at

LITERAL_SLOT = 209     # of the emulator's scalar file: between the inline constants, used by none
VCC, NOP = 106, 0xBF800000
SCALED_PRODUCT, AFTER = (0xD3AC).to_bytes(2, "little"), 2 * NOP.to_bytes(4, "little")

# Loads of 16 bits: C type, whether the other half of the register stays, where the half lies. Stores: how many words.
HALF_LOADS = {"GLOBAL_LOAD_U16": (ctypes.c_uint16, False, 0), "GLOBAL_LOAD_USHORT": (ctypes.c_uint16, False, 0), "GLOBAL_LOAD_I16": (ctypes.c_int16, False, 0),
              "GLOBAL_LOAD_SSHORT": (ctypes.c_int16, False, 0), "GLOBAL_LOAD_D16_B16": (ctypes.c_uint16, True, 0), "GLOBAL_LOAD_SHORT_D16": (ctypes.c_uint16, True, 0),
              "GLOBAL_LOAD_D16_HI_B16": (ctypes.c_uint16, True, 16), "GLOBAL_LOAD_SHORT_D16_HI": (ctypes.c_uint16, True, 16)}
WIDE_ATOMICS = ("GLOBAL_ATOMIC_CMPSWAP_X2", "GLOBAL_ATOMIC_CMPSWAP_B64", "GLOBAL_ATOMIC_ADD_F64")
STORES = {"GLOBAL_STORE_" + name: count for count, names in enumerate((("B32", "DWORD"), ("B64", "DWORDX2"), ("B96", "DWORDX3"), ("B128", "DWORDX4")), 1)
          for name in names}
# Bytes of buffer instructions.
BUFFER_SIZES = {"U8": 1, "I8": 1, "B8": 1, "U16": 2, "I16": 2, "B16": 2, "B32": 4, "B64": 8, "B96": 12, "B128": 16,
                "UBYTE": 1, "SBYTE": 1, "BYTE": 1, "USHORT": 2, "SSHORT": 2, "SHORT": 2, "DWORD": 4, "DWORDX2": 8, "DWORDX3": 12, "DWORDX4": 16}
NULL_SCALAR, ZERO = 124, 128


def signed(value, bits):
    return value - (1 << bits) if value >> bits - 1 else value


class Corrections(Modes, Staged, Computed, Divisions):
    """Mixed into the driver's Emu. `_step` gives for the instruction at an address: the function, the buffers it takes, whether it is a barrier, a
    text. Buffers: 0 scalars, 1 vectors, 2 memory, 3 shared, 4 private, 5 accumulators."""

    share = 0, 1   # which workgroups are this process's: every one of `share[1]` whose number leaves share[0]

    def __init__(self, checkout):
        """The emulator takes what stands before a matrix product of bytes (gfx950) for a scaled one, which has two words more and begins otherwise."""
        super().__init__(checkout)
        decode = self.emu.decode_inst
        self.emu.decode_inst = lambda code, arch: decode(code if arch != "cdna" or code[2:4] == SCALED_PRODUCT else code[:8] + AFTER, arch)

    def forget_memory(self):
        """In a new process: registers of earlier waves, which the emulator keeps for the next ones, are memory that processes share."""
        self.emu.Device["CPU"].allocator.free_cache()

    def _step(self, pc, arch):
        w, w1 = words_at(pc, 2)
        short, long = not w >> 31, w >> 26 == (0x34 if arch == "cdna" else 0x35)
        if w >> 26 == 0x36: return self.shared_access(pc, arch, w, w1) or super()._step(pc, arch)
        if w >> 26 == 0x37 or w >> 24 == 0xEE: return self.global_access(pc, arch, w, w1) or super()._step(pc, arch)
        if w >> 26 == (0x31 if arch == "rdna4" else 0x38): return self.buffer_access(pc, arch, w, w1) or super()._step(pc, arch)
        found = None
        if short and w & 511 in (SOURCE_SDWA, SOURCE_DPP): found = self.staged(pc, arch, w, w1)
        elif long and arch != "cdna" and w1 & 511 == SOURCE_DPP: found = self.staged_long(pc, arch, w, w1)
        if found: return found   # the plain form of it has come through here
        if w >> 23 == 0x17D and arch == "rdna4": found = self.scalar_conversion(pc, arch, w, w1)
        elif w >> 28 == 0xB: found = self.mode_change(pc, arch, w, w1)
        elif w >> 23 == (0x1A7 if arch == "cdna" else 0x198): found = self.packed(pc, arch, w, w1)
        elif short or long:
            found = self.computed(pc, arch, w, w1) or self.division(pc, arch, w, w1)
            if not found and short and arch == "cdna": found = self.half_words(pc, arch, w, w1)
        found = found or super()._step(pc, arch)
        return self.in_mode(found, pc, arch, w, w1) if self.flushes else found

    def refuse(self, what, pc):
        raise self.driver.Trap("%s at %#x: the emulator has it wrong" % (what, pc))

    def decoded(self, pc, arch): return self.emu.decode_inst(bytes((ctypes.c_char * 16).from_address(pc).raw), arch)
    def name_of(self, pc, arch): return self.decoded(pc, arch).op.name

    # -- loads from shared memory into half a register: the emulator clears the other half, and puts what belongs into the upper one into the lower
    def shared_access(self, pc, arch, w, w1):
        name = self.name_of(pc, arch)
        if arch == "cdna" and w >> 25 & 1 and not name.startswith("DS_READ"): return self.with_accumulators(pc, w, w1, 25)
        if "_TR_" in name: return self.turned_read(pc, w, w1, name)
        if "_D16" not in name or not name.startswith(("DS_LOAD", "DS_READ")): return self.misaligned_shared(pc, arch, w, w1, name)
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

    # -- reads of gfx950 that turn a matrix, which the emulator does not know. Each of sixteen lanes names n elements, 8 bytes; lane l gets element l % n of what
    #    lanes l / n + 16 / n * i name, for each i below n.
    def turned_read(self, pc, w, w1, name):
        if name not in ("DS_READ_B64_TR_B16", "DS_READ_B64_TR_B8"): self.refuse(name, pc)
        lanes, count, size = 64, (8 if name.endswith("B8") else 4), (1 if name.endswith("B8") else 2)
        offset, address, to, file = w & 0xFFFF, w1 & 255, w1 >> 24, 5 if w >> 25 & 1 else 1
        first, low, following, driver = self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + 8, self.driver

        def run(scalars, vectors, shared, target):
            s, at, out = words_at(scalars.value, 260), words_at(vectors.value + 4 * lanes * address, lanes), words_at(target.value + 4 * lanes * to, 2 * lanes)
            if s[first] & s[first + 1] != 0xFFFFFFFF: raise driver.Trap("%s: not all lanes are there" % name)
            if any(x + offset & 7 for x in at): raise driver.Trap("%s: an address is not a multiple of 8" % name)
            rows = [ctypes.string_at(shared.value + (x + offset & 0xFFFFFFFF), 8) for x in at]
            for l in range(lanes):
                start, column = l // 16 * 16 + l % 16 // count, l % count * size
                turned = b"".join(rows[start + 16 // count * i][column:column + size] for i in range(count))
                out[l], out[lanes + l] = struct.unpack("<II", turned)
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
        if "ATOMIC" in name and in_accumulators: return self.with_accumulators(pc, w, w1, 32 + 23)
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

    # -- raw buffer instructions, with an offset in a vector register or none: gfx11's and gfx12's the emulator does not know, of gfx9's it loads and stores words
    #    only. Out of range is an access that does not lie whole below the number of records: it reads zero and stores nothing. Where the manuals leave open
    #    whether it is in range (gfx9: a part; a scalar offset), the run stops.
    def buffer_fields(self, pc, arch, w, w1):
        """Size of the instruction, its name; fields: scalar offset, data, resource, whether there are a vector offset and an index, its register, offset, accumulators."""
        if arch == "rdna4":
            w2 = words_at(pc, 3)[2]
            size, code, table, tfe = 12, w >> 14 & 255, self.emu.ir4.VBUFFEROp, w >> 22 & 1
            fields = w & 127, w1 & 255, w1 >> 9 & 511, w1 >> 30 & 1, w1 >> 31, w2 & 255, signed(w2 >> 8, 24), 0
        elif arch == "rdna3":
            size, code, table, tfe = 8, w >> 18 & 255, self.emu.ir3.MUBUFOp, w1 >> 21 & 1
            fields = w1 >> 24, w1 >> 8 & 255, (w1 >> 16 & 31) * 4, w1 >> 22 & 1, w1 >> 23 & 1, w1 & 255, w & 4095, 0
        else:
            size, code, table, tfe = 8, w >> 18 & 127, self.emu.irc.MUBUFOp, w >> 16 & 1   # a load to shared memory
            fields = w1 >> 24, w1 >> 8 & 255, (w1 >> 16 & 31) * 4, w >> 12 & 1, w >> 13 & 1, w1 & 255, w & 4095, w1 >> 23 & 1
        name = next((op.name for op in table if op.value == code), "buffer instruction %d" % code)
        if not name.endswith("_INV") and "WBL2" not in name and (tfe or fields[4] or fields[6] < 0): self.refuse(name + " in this form", pc)
        return size, name, fields

    def buffer_access(self, pc, arch, w, w1):
        size, name, (scalar, data, resource, offen, _, at, offset, accumulators) = self.buffer_fields(pc, arch, w, w1)
        words = name.split("_")
        if name.endswith("_INV") or "WBL2" in words: return None   # of a cache
        kind = [x for x in words[2:] if x in BUFFER_SIZES]
        if words[1] not in ("LOAD", "STORE") or not kind or "LDS" in words or "FORMAT" in words: self.refuse(name, pc)
        lanes, has_scalar = 64 if arch == "cdna" else 32, scalar < 106
        if not has_scalar and scalar not in (NULL_SCALAR, ZERO) or scalar == NULL_SCALAR and arch == "cdna": self.refuse(name + " in this form", pc)
        bytes_each, stores, half, high, is_signed = BUFFER_SIZES[kind[0]], words[1] == "STORE", "D16" in words, "HI" in words, kind[0] in ("I8", "I16", "SBYTE", "SSHORT")
        first, low, following, file = self.emu.EXEC_LO.offset, self.emu.PC_LO_IDX, pc + size, 5 if accumulators else 1
        driver, count, is_gfx9 = self.driver, (bytes_each + 3) // 4, arch == "cdna"

        def run(*buffers):
            s, offsets, v = words_at(buffers[0].value, 260), words_at(buffers[1].value, 256 * lanes), words_at(buffers[file].value, 256 * lanes)
            base, upper, records, flags = s[resource:resource + 4]
            if upper >> 16 or not is_gfx9 and flags >> 28 != 3: raise driver.Trap("%s: a resource with a stride, or not checked by offset: %#x %#x" % (name, upper, flags))
            added = s[scalar] if has_scalar else 0
            base, active = base + (upper << 32) + added, s[first] | (s[first + 1] << 32 if lanes == 64 else 0)
            for i in range(lanes):
                if not active >> i & 1: continue
                below = (offsets[at * lanes + i] if offen else 0) + offset
                if below >> 32: raise driver.Trap("%s: the offset %#x has more than 32 bits" % (name, below))
                live = below + bytes_each <= records
                if added and live != (below + added + bytes_each <= records): raise driver.Trap("%s: the scalar offset decides whether %#x + %#x is in range of %#x" % (name, below, added, records))
                if is_gfx9 and not live and below < records: raise driver.Trap("%s: bytes %#x to %#x are partly in range of %#x" % (name, below, below + bytes_each, records))
                places = [(data + k) * lanes + i for k in range(count)]
                if stores and live:
                    value = b"".join(struct.pack("<I", v[p]) for p in places)
                    ctypes.memmove(base + below, value[2:] if high else value, bytes_each)
                elif not stores:
                    value = ctypes.string_at(base + below, bytes_each) if live else bytes(bytes_each)
                    if bytes_each >= 4:
                        for p, word in zip(places, struct.unpack("<%dI" % count, value)): v[p] = word
                        continue
                    number, p = int.from_bytes(value, "little", signed=is_signed), places[0]
                    v[p] = (v[p] & 0xFFFF | (number & 0xFFFF) << 16 if high else v[p] & 0xFFFF0000 | number & 0xFFFF) if half else number & 0xFFFFFFFF
            s[low], s[low + 1] = following & 0xFFFFFFFF, following >> 32

        return run, ALL, False, name.lower()

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
        kind, source, left, to = type(inst).__name__.split("_")[0], w & 511, w >> 9 & 255, w >> 17 & 255
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
