#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the test bed itself, with kernels in assembly: orders of waves, barriers, what stands around buffers, modes.

  KILN_AMD_EMULATOR=<tree> KILN_AMDRUN=<amdrun.py> tests/emulation/bed.py [--seed=1] [--targets=gfx942,...]

Each kernel has a fault that must be seen, or none and must be right in every order. Single instructions: instructions.py.
"""
import os, random, struct, subprocess, sys, tempfile

sys.dont_write_bytecode = True
import emulator
from around import Buffer

TARGETS = ("gfx942", "gfx1100", "gfx1201")
ORDERS = 12   # drawn ones for each kernel
TIMES = 6     # that a wave adds

# Mnemonics as gfx9 has them, and since.
NEWER = {"s_load_dwordx2": "s_load_b64", "global_load_dword": "global_load_b32", "global_store_dword": "global_store_b32", "global_atomic_add ": "global_atomic_add_u32 ",
         "ds_write_b32": "ds_store_b32", "ds_read_b32": "ds_load_b32", "v_add_u32": "v_add_nc_u32"}


def barrier(target): return "s_barrier_signal -1\ns_barrier_wait -1" if target.startswith("gfx12") else "s_barrier"


def object_of(target, body, shared, folder, head=""):
    """A code object of one kernel `k` with a pointer as its argument: s[2:3] is the pointer, v0 the number of the thread, v1 zero."""
    wave64 = target.startswith("gfx9")
    body = "s_load_dwordx2 s[2:3], s[0:1], 0x0\nv_mov_b32 v1, 0\nv_and_b32 v0, 0x3ff, v0\n" + body.replace("BARRIER", barrier(target)) + "\ns_endpgm\n"
    for old, new in () if wave64 else NEWER.items(): body = body.replace(old, new)
    text = """.amdgcn_target "amdgcn-amd-amdhsa--%s"
.text
.globl k
.p2align 8
.type k,@function
k:
%s
.Lend:
.size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_group_segment_fixed_size %d
  .amdhsa_kernarg_size 8
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 32
%s
%s
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: %d
    .private_segment_fixed_size: 0
    .wavefront_size: %d
    .sgpr_count: 32
    .vgpr_count: 16
    .max_flat_workgroup_size: 1024
    .args: [{.offset: 0, .size: 8, .value_kind: global_buffer}]
...
.end_amdgpu_metadata
""" % (target, body, shared, "  .amdhsa_accum_offset 16" if wave64 else "", head, shared, 64 if wave64 else 32)
    path = os.path.join(folder, "k.o")
    subprocess.run([os.environ.get("KILN_LLVM_MC", "llvm-mc-22"), "-triple=amdgcn-amd-amdhsa", "-mcpu=" + target, "-filetype=obj", "-o", path], input=text, text=True, check=True)
    subprocess.run([os.environ.get("KILN_LLD", "ld.lld-22"), "-shared", path, "-o", path + ".hsaco"], check=True)
    return path + ".hsaco"


ADDS = "global_load_dword v2, v1, s[2:3]\ns_nop 0\nv_add_u32 v2, 1, v2\nglobal_store_dword v1, v2, s[2:3]\n"
ATOMICS = "v_mov_b32 v2, 1\nglobal_atomic_add v1, v2, s[2:3]\n"


def exchange(barriers):
    """Each thread writes its number to shared memory and reads that of the thread at the other end, three times."""
    text = "v_lshlrev_b32 v3, 2, v0\nv_sub_u32 v4, THREADS-1, v0\nv_lshlrev_b32 v4, 2, v4\nv_mov_b32 v6, 0\n"
    for i in range(3):
        text += "v_add_u32 v5, %d, v0\nds_write_b32 v3, v5\n%sds_read_b32 v5, v4\nv_add_u32 v6, v6, v5\n%s" % (10 * i, "BARRIER\n" * barriers[0], "BARRIER\n" * barriers[1])
    return text + "global_store_dword v3, v6, s[2:3]\n"


class Bed:
    def __init__(self, driver, target, seed, folder):
        self.driver, self.target, self.folder, self.lanes = driver, target, folder, 64 if target.startswith("gfx9") else 32
        self.emu, self.random = driver.Emu(os.environ["KILN_AMD_EMULATOR"]), random.Random("%s %s" % (seed, target))
        self.failures, self.count, self.modules = [], 0, {}

    def expect(self, what, holds):
        self.count += 1
        print("%s %s@%s" % ("ok  " if holds else "FAIL", what, self.target), flush=True)
        if not holds: self.failures.append(what)

    def orders(self): return ["fwd", "rev"] + ["drawn:%d" % self.random.randrange(10**6) for _ in range(ORDERS)]

    def launch(self, body, order, grid=1, threads=1, words=1, shared=0, around=512, head=""):
        """What the buffer holds afterwards, and what has been written outside of it."""
        self.emu.order, key = order, (body, threads, shared, head)
        if key not in self.modules: self.modules[key] = self.driver.Module(object_of(self.target, body.replace("THREADS", str(threads)), shared, self.folder, head))
        module = self.modules[key]
        buffer = Buffer(self.driver, "buffer", 4, bytes(4 * words), around=around)
        self.emu.launch(module, "k", [grid, 1, 1], [threads, 1, 1], [buffer.pointer])
        return struct.unpack("<%dI" % words, buffer.bytes()), buffer.written_outside()

    def one_lane(self, body): return ("s_mov_b64 exec, 1\n" if self.lanes == 64 else "s_mov_b32 exec_lo, 1\n") + body

    def sums(self):
        """Loads, adds and stores by several waves lose some of the others' sums; only an order that changes waves between the load and the store shows it."""
        for what, grid, waves in (("waves", 1, 3), ("workgroups", 3, 1)):
            want, threads = grid * waves * TIMES, waves * self.lanes
            plain = {o: self.launch(self.one_lane(ADDS * TIMES), o, grid, threads)[0][0] for o in self.orders()}
            self.expect("plain sums of %s are right forward and backward" % what, plain["fwd"] == plain["rev"] == want)
            self.expect("plain sums of %s are lost in drawn orders" % what, any(v < want for o, v in plain.items() if o.startswith("drawn")))
            atomic = [self.launch(self.one_lane(ATOMICS * TIMES), o, grid, threads)[0][0] for o in self.orders()]
            self.expect("atomic sums of %s are right in every order" % what, set(atomic) == {want})

    def barriers(self):
        threads = 4 * self.lanes
        want = tuple(3 * (threads - 1 - i) + 30 for i in range(threads))
        for barriers, right in (((1, 1), True), ((1, 0), False), ((0, 1), False)):
            got = [self.launch(exchange(barriers), o, 1, threads, threads, 4 * threads)[0] for o in self.orders()]
            what = "an exchange with %d barriers before reading and %d after" % barriers
            self.expect(what + (" is right in every order" if right else " is wrong in a drawn order"), all(g == want for g in got) if right else any(g != want for g in got[2:]))

    def same_seed(self):
        def sums():
            self.emu.launches = 0
            return [self.launch(self.one_lane(ADDS * TIMES), "drawn:5", 2, 2 * self.lanes)[0] for _ in range(4)]
        self.expect("a seed draws the same order again", sums() == sums())

    def ended(self):
        ended = "v_cmp_gt_u32 vcc, THREADS/2, v0\n".replace("vcc", "vcc" if self.lanes == 64 else "vcc_lo") + "s_cbranch_vccnz .Lgo\ns_endpgm\n.Lgo:\nBARRIER\nv_mov_b32 v2, 7\nglobal_store_dword v1, v2, s[2:3]\n"
        self.expect("a barrier opens when the rest has ended", all(self.launch(ended, o, 1, 2 * self.lanes)[0] == (7,) for o in self.orders()[:4]))

    def outside(self):
        for what, offset, bytes_at in (("before", -4, "element 1 before the first"), ("after", 64, "element 1 after the last"), ("far after", 200, "element 35 after the last")):
            said = self.launch(self.one_lane("v_mov_b32 v2, 7\nglobal_store_dword v1, v2, s[2:3] offset:%d\n" % offset), "fwd", words=16)[1]
            self.expect("a store %s the buffer is reported" % what, bytes_at in said)
        self.expect("a store inside is not", self.launch(self.one_lane("v_mov_b32 v2, 7\nglobal_store_dword v1, v2, s[2:3] offset:60\n"), "fwd", words=16)[1] == "")
        read = Buffer(self.driver, "input", 4, bytes(16), is_read=True)
        beyond = struct.unpack("<2f", read.kept.bytes()[512 + 16:512 + 24])
        self.expect("NaNs stand around inputs", all(x != x for x in beyond))

    def denormals(self):
        """Each wave has a mode of its own, which it may change; the second one here does not."""
        change = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), %d\n" if self.target.startswith("gfx9") else "s_denorm_mode %d\n"
        keep, flush = (change % x for x in ((3, 0) if self.target.startswith("gfx9") else (15, 12)))
        product = "v_mul_f32 v3, 1.0, v2\nglobal_store_dword v4, v3, s[2:3] offset:%d\n"
        text = ("v_lshlrev_b32 v4, 4, v0\nv_mov_b32 v2, 0x100\nv_readfirstlane_b32 s4, v0\ns_nop 4\ns_cmp_ge_u32 s4, %d\n" % self.lanes + product % 0 + "s_cbranch_scc1 .Lsecond\n" + keep +
                ".Lsecond:\n" + product % 4 + "v_mov_b32 v3, v2\nglobal_store_dword v4, v3, s[2:3] offset:8\n" + flush + product % 12)
        flushed = (0, 256, 256, 0) * self.lanes + (0, 0, 256, 0) * self.lanes
        got = [self.launch(text, o, 1, 2 * self.lanes, 8 * self.lanes, head="  .amdhsa_float_denorm_mode_32 0")[0] for o in self.orders()]
        self.expect("denormals are flushed as the mode of each wave says", set(got) == {flushed})
        try: said = str(self.launch(text, "fwd", 1, 2 * self.lanes, 8 * self.lanes, head="  .amdhsa_float_denorm_mode_32 3")[0])
        except self.driver.Trap as e: said = str(e)
        self.expect("a kernel that keeps them and then does not is refused", "begins without one" in said)

    def run(self):
        for test in (self.sums, self.barriers, self.same_seed, self.ended, self.outside, self.denormals): test()


def main(words):
    options = dict(w[2:].split("=", 1) for w in words if w.startswith("--"))
    if not os.environ.get("KILN_AMD_EMULATOR") or not os.environ.get("KILN_AMDRUN"):
        print("skipped: KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver\n0 passed, 0 failed, 1 skipped")
        return 0
    driver, seed, count, failed = emulator.load(), options.get("seed", "1"), 0, 0
    print("seed " + seed)
    for target in options.get("targets", ",".join(TARGETS)).split(","):
        with tempfile.TemporaryDirectory() as folder:
            bed = Bed(driver, target, seed, folder)
            bed.run()
        count, failed = count + bed.count, failed + len(bed.failures)
    print("%d passed, %d failed, 0 skipped" % (count - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
