# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which wave runs next. Mixed into the driver's Emu (emulator.py), in the place of its own loop.

Waves of a workgroup meet in shared memory, workgroups in global memory, so it is enough to let others run before an instruction that reads or writes
memory: no other instruction's effect is seen by another wave. Orders:

  fwd, rev     workgroups one after the other; the first (last) wave that can run does so up to its next barrier
  drawn:SEED   workgroups in a drawn order, up to four at a time; before each access to memory the wave may have to wait, with a probability drawn for
               each launch, and the wave that goes on is drawn

A barrier opens when all waves that have not ended have signalled. `s_barrier` of gfx9 and gfx11 signals and waits; on gfx12 these are two instructions, and a wave
runs on between them.
"""
import ctypes, mmap, random, sys

from modes import MODE_SLOT

PLAIN, ACCESS, SIGNAL, WAIT = 0, 1, 2, 4   # what an instruction is to other waves; a barrier of gfx9 and gfx11 is SIGNAL | WAIT
ACCESSES = {"cdna": (0x30, 0x36, 0x37, 0x38), "rdna3": (0x36, 0x37, 0x38, 0x3D), "rdna4": (0x31, 0x36, 0x3B, 0x3D)}   # upper six bits of what reads or writes memory
MOST_IN_FLIGHT = 4                         # workgroups
PAUSES = 1 / 2, 1 / 6, 1 / 40              # probabilities of a pause before an access
ENDED = 0xFFFFFFFFFFFFFFFF                 # the program counter after s_endpgm


class Wave:
    def __init__(self, number, state, addresses):
        self.number, self.state, self.scalars = number, state, state._sgpr_mv
        self.buffers = [ctypes.c_uint64(x) for x in addresses]
        self.bound, self.count = {}, 0
        self.signalled = None   # the barrier's generation when this wave signalled, until it has passed
        self.is_blocked = False # at a barrier that was closed


class Workgroup:
    def __init__(self, ids, waves): self.ids, self.waves, self.arrived, self.generation = ids, waves, 0, 0

    def ready(self): return [w for w in self.waves if not w.is_blocked or w.signalled < self.generation]

    def open_barrier(self):
        """If all have signalled that have not ended."""
        if self.arrived and self.arrived == len(self.waves): self.arrived, self.generation = 0, self.generation + 1


class Scheduler:
    order, launches = "fwd", 0

    def launch(self, module, name, grid, block, args, dyn_lds=0):
        self.queue, self.expected, self.launches = [], grid[0] * grid[1] * grid[2], self.launches + 1
        self.random = random.Random("%s %d" % (self.order, self.launches)) if self.order.startswith("drawn") else None
        self.pause = self.random.choice(PAUSES) if self.random else 0
        return super().launch(module, name, grid, block, args, dyn_lds)

    def _workgroup(self, ids, block, kd, ka, user, arch, lds, lds_addr, vmem, scratch_addrs, ws):
        """Called by launch for each workgroup, in its order; the last call runs all."""
        self.queue.append(ids)
        if len(self.queue) < self.expected: return
        queue = [ids for i, ids in enumerate(self.queue) if i % self.share[1] == self.share[0]]
        if self.random: self.random.shuffle(queue)
        width = self.random.randint(1, MOST_IN_FLIGHT) if self.random else 1
        places = [(lds_addr, scratch_addrs, None)]
        count = (block[0] * block[1] * block[2] + ws - 1) // ws
        while len(places) < min(width, len(queue)): places.append(self.place(lds, kd["priv"] * ws, count))
        self.facts = block, kd, ka, user, arch, lds, vmem, ws
        running = []
        try:
            while queue or running:
                while queue and places:
                    place = places.pop()
                    running.append((self.begin(queue.pop(0), place), place))
                group, place = self.random.choice(running) if self.random else running[0]
                ready = group.ready()
                if not ready: raise self.driver.Trap("workgroup %s: %d waves wait at a barrier that %d have reached" % (group.ids, len(group.waves), group.arrived))
                wave = self.random.choice(ready) if self.random else ready[0 if self.order == "fwd" else -1]
                self.run_wave(group, wave, arch)
                if not group.waves:
                    running.remove((group, place))
                    places.append(place)
        finally:
            for *_, owned in places + [place for _, place in running]:
                if owned: self.driver._libc.munmap(owned[0], owned[1])

    def place(self, lds, private, waves):
        """Shared memory that ends against 4 GiB without access, and private memory of each wave, for one more workgroup at a time."""
        libc, page = self.driver._libc, mmap.PAGESIZE
        size = (1 << 32) + (1 << 21)
        base = libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)   # no reserve
        span = (max(lds, 4) + page - 1) // page * page
        begin = (base + (1 << 20)) // page * page
        assert libc.mprotect(begin, span, 3) == 0
        scratch = [self.driver.Buf(size=private, poison=0) for _ in range(waves)] if private else []
        return begin + span - (max(lds, 4) + 15) // 16 * 16, [b.addr for b in scratch], (base, size, scratch)

    def begin(self, ids, place):
        """A workgroup with its waves, all of what hardware leaves undefined filled with the poison."""
        (block, kd, ka, user, arch, lds, vmem, ws), (lds_addr, scratch, _) = self.facts, place
        emu, total, poison, waves = self.emu, block[0] * block[1] * block[2], self.poison, []
        if lds: ctypes.memset(lds_addr, poison, lds)
        for number, start in enumerate(range(0, total, ws)):
            st = emu._init_wave(kd["code"], start, total, *block, ka, kd["r2"], kd["priv"], arch, *ids, user, ws)
            st._write_sgpr(248, 0x3E22F983)   # 1 / (2 pi), which the emulator's number of the wave overwrites
            st._write_sgpr(MODE_SLOT, self.mode_at_start)
            ctypes.memset(st.vgpr_buf._buf.va_addr + 4 * ws, poison, 255 * ws * 4)
            first = len(user or [0, 0]) + (0 if arch == "rdna4" else bin(kd["r2"] >> 7 & 7).count("1"))
            for i in range(first, 102): st._write_sgpr(i, poison * 0x01010101)
            if scratch: ctypes.memset(scratch[number], poison, kd["priv"] * ws)
            addresses = [st.sgpr_buf._buf.va_addr, st.vgpr_buf._buf.va_addr, vmem, lds_addr, scratch[number] if scratch else 0, st.accvgpr_buf._buf.va_addr]
            waves.append(Wave(number, st, addresses))
        return Workgroup(ids, waves)

    def kind(self, pc, arch, is_barrier, text):
        if is_barrier is True: return WAIT if arch == "rdna4" else SIGNAL | WAIT
        if arch == "rdna4" and "barrier_signal" in text.lower(): return SIGNAL
        return ACCESS if ctypes.c_uint32.from_address(pc).value >> 26 in ACCESSES[arch] else PLAIN

    def bind(self, wave, pc, arch):
        """The instruction at an address, ready to be called for this wave: function, arguments, kind, text."""
        kd, b = self.facts[1], wave.buffers
        if not kd["code0"] <= pc < kd["code1"]: raise self.driver.Trap("pc %#x outside the code object" % (pc - kd["code0"]))
        found = self.cache.get(pc)
        if found is None:
            step = self._step(pc, arch)
            found = self.cache[pc] = step, self.kind(pc, arch, step[2], step[3])
        step, kind = found
        files = [b[1], b[5], b[0]]
        if step[0] == "lane": return step[1], [wave.state, files] + step[2], kind, step[3]
        if step[0] == "mat": return self._mat, [step[1], wave.scalars, files, step[3]], kind, step[3]
        if isinstance(step[0], str): return self._jump, [wave.scalars, step[0], *step[1], pc + 4, self.emu.PC_LO_IDX], kind, step[3]
        return step[0], [b[i] for i in step[1]], kind, step[3]

    def run_wave(self, group, wave, arch):
        """Up to a barrier that is closed, to a pause, or to the end."""
        low, high, scalars, bound, code, number = self.emu.PC_LO_IDX, self.emu.PC_HI_IDX, wave.scalars, wave.bound, self.facts[1]["code"], 0
        pause, draw = self.pause, self.random.random if self.random else None
        where = lambda: "+%#x, workgroup %s wave %d" % (pc - code, group.ids, wave.number)
        if wave.is_blocked: wave.is_blocked, wave.signalled = False, None
        while True:
            pc = scalars[low] | scalars[high] << 32
            if pc == ENDED:
                group.waves.remove(wave)
                if wave.signalled == group.generation: group.arrived -= 1   # it is no longer one of those that are waited for
                group.open_barrier()
                break
            found = bound.get(pc)
            if found is None: found = bound[pc] = self.bind(wave, pc, arch)
            call, arguments, kind, text = found
            if kind == ACCESS and pause and number and draw() < pause: break
            if self.trace: print("%s %s" % (where(), text), file=sys.stderr, flush=True)
            if call is None: raise self.driver.Trap("%s at %s" % (text, where()))
            call(*arguments)
            number += 1
            if kind & SIGNAL:
                wave.signalled, group.arrived = group.generation, group.arrived + 1
                group.open_barrier()
            if kind & WAIT:
                if wave.signalled is None: raise self.driver.Trap("a wait at a barrier that the wave has not signalled, at " + where())
                wave.is_blocked = True   # if the barrier is open, only for this turn
                break
            if number > self.max_inst: raise self.driver.Trap("%d instructions in a turn without an end, last %s" % (number, where()))
        wave.count += number
        self.ninst += number
        if wave.count > self.max_inst: raise self.driver.Trap("a wave has run %d instructions without an end, last %s" % (wave.count, where()))
