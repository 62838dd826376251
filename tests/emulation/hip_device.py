#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The device behind hip_emulated.c: memory, modules and launches on an emulator of AMD's instructions. Requests on descriptor 0, replies on 3.

  KILN_AMD_EMULATOR, KILN_AMDRUN   the emulator and its driver (docs/emulation.md)
  KILN_EMULATED_ORDER=fwd|rev|drawn[:SEED]   the order of workgroups and waves (scheduler.py); without a seed one is drawn and printed
  KILN_EMULATED_POISON=0xCD        what fills new memory, shared and private memory, and registers that hardware leaves undefined
  KILN_EMULATED_ALIGN=16           of new memory; a buffer ends that near to pages without access
  KILN_EMULATED_AROUND=0           bytes of a pattern before and after each buffer, compared after each launch
  KILN_EMULATED_WORKERS=1          processes that share the workgroups of a launch; for kernels whose workgroups add to no memory that others add to
  KILN_EMULATED_SHARED=FILE@ADDRESS,...   memory that the program has in common with it, at the same addresses
  KILN_EMULATED_STATS=FILE         a line a launch: kernel, workgroups, wave-instructions of one worker, seconds

Each buffer, with what stands around it, ends against pages without access; a store to the few bytes between is found after the launch.
"""
import ctypes, os, random, struct, sys, tempfile, time

sys.dont_write_bytecode = True
import emulator
from around import Buffer

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, LAUNCH_FAILURE = 0, 1, 2, 719
MOST_BYTES = 1 << 30
READ_WRITE, SHARED_FIXED = 3, 0x1 | 0x4000 | 0x100000  # of mmap: shared, without reserve, at this address or not at all


def emulator_order(text):
    if text != "drawn": return text
    text = "drawn:%d" % random.SystemRandom().randrange(10**9)
    print("KILN_EMULATED_ORDER=%s" % text, file=sys.stderr, flush=True)
    return text


def map_shared(text):
    mmap = ctypes.CDLL(None, use_errno=True).mmap
    mmap.restype, mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    for path, _, address in (part.rpartition("@") for part in text.split(",")):
        with open(path, "r+b") as f:
            if mmap(int(address, 0), os.fstat(f.fileno()).st_size, READ_WRITE, SHARED_FIXED, f.fileno(), 0) != int(address, 0):
                raise SystemExit("%s: cannot be mapped at %s" % (path, address))


class Device:
    def __init__(self, driver, emulator):
        self.driver, self.emulator = driver, emulator
        self.poison = int(os.environ.get("KILN_EMULATED_POISON", "0xCD"), 0)
        emulator.poison, emulator.order = self.poison, emulator_order(os.environ.get("KILN_EMULATED_ORDER", "fwd"))
        self.align = int(os.environ.get("KILN_EMULATED_ALIGN", "16"))
        self.around = int(os.environ.get("KILN_EMULATED_AROUND", "0"))
        self.workers = int(os.environ.get("KILN_EMULATED_WORKERS", "1"))
        self.stats = os.environ.get("KILN_EMULATED_STATS")
        self.buffers, self.modules, self.functions = {}, {}, {}

    def inside(self, address, size):
        """The buffer that holds these bytes, or None."""
        return next((b for b in self.buffers.values() if b.address <= address and address + size <= b.address + b.size), None)

    def alloc(self, size, *_):
        if size > MOST_BYTES: return OUT_OF_MEMORY, 0
        around = (self.around + self.align - 1) // self.align * self.align
        buffer = Buffer(self.driver, "a buffer of %d bytes" % size, 1, None, max(size, 1), self.poison, around, False, self.align)
        self.buffers[buffer.address] = buffer
        return SUCCESS, buffer.address

    def free(self, address, *_): return (SUCCESS if self.buffers.pop(address, None) else INVALID_VALUE), 0

    def copy_to(self, address, *rest):
        data = rest[-1]
        if not self.inside(address, len(data)): return INVALID_VALUE, 0
        ctypes.memmove(address, data, len(data))
        return SUCCESS, 0

    def copy_from(self, address, size, *_):
        if not self.inside(address, size): return INVALID_VALUE, 0
        return SUCCESS, 0, ctypes.string_at(address, size)

    def fill(self, address, size, byte, *_):
        if not self.inside(address, size): return INVALID_VALUE, 0
        ctypes.memset(address, byte, size)
        return SUCCESS, 0

    def load(self, *rest):
        with tempfile.NamedTemporaryFile(suffix=".hsaco") as f:
            f.write(rest[-1])
            f.flush()
            module = self.driver.Module(f.name)
        number = len(self.modules) + 1
        self.modules[number] = module
        return SUCCESS, number

    def unload(self, number, *_): return (SUCCESS if self.modules.pop(number, None) else INVALID_VALUE), 0

    def function(self, number, *rest):
        name, module = rest[-1].decode(), self.modules.get(number)
        if not module or name not in module.kernels: return INVALID_VALUE, 0
        self.functions[len(self.functions) + 1] = module, name
        return SUCCESS, len(self.functions)

    def ran(self, launch, name):
        try: launch()
        except (self.driver.Trap, SystemExit) as e:
            print("emulated %s: %s" % (name, e), file=sys.stderr, flush=True)
            return False
        return True

    def shared_out(self, launch, name):
        """Whether it ran, shared by all workers: buffers are memory that processes share."""
        others = []
        for part in range(1, self.workers):
            pid = os.fork()
            if not pid:
                self.emulator.share = part, self.workers
                self.emulator.forget_memory()
                os._exit(0 if self.ran(launch, name) else 1)
            others.append(pid)
        self.emulator.share = 0, self.workers
        passed = self.ran(launch, name)
        return all([os.waitpid(pid, 0)[1] == 0 for pid in others]) and passed

    def launch(self, number, gx, gy, gz, threads, shared, _, block):
        module, name = self.functions[number]
        args = []
        for a in module.kernels[name].get(".args", []):
            if a[".value_kind"].startswith("hidden_"): continue
            value = block[a[".offset"]:a[".offset"] + a[".size"]]
            if len(value) != a[".size"]: return INVALID_VALUE, 0
            args.append(value)
        begin, counted = time.monotonic(), self.emulator.ninst
        if not self.shared_out(lambda: self.emulator.launch(module, name, [gx, gy, gz], [threads, 1, 1], args, shared), name): return LAUNCH_FAILURE, 0
        if self.stats:
            with open(self.stats, "a") as f:
                f.write("%s %s %d %d %.2f\n" % (module.gfx, name, gx * gy * gz, self.emulator.ninst - counted, time.monotonic() - begin))
        for b in self.buffers.values():
            outside = b.written_outside()
            if not outside: continue
            print("emulated %s: %s" % (name, outside), file=sys.stderr, flush=True)
            return LAUNCH_FAILURE, 0
        return SUCCESS, 0


def main():
    requests, replies = os.fdopen(0, "rb"), os.fdopen(3, "wb")
    if os.environ.get("KILN_EMULATED_SHARED"): map_shared(os.environ["KILN_EMULATED_SHARED"])
    driver = emulator.load()
    device = Device(driver, driver.Emu(os.environ["KILN_AMD_EMULATOR"]))
    operations = (None, device.alloc, device.free, device.copy_to, device.copy_from, device.fill, device.load, device.unload, device.function, device.launch)
    has_bytes = {device.copy_to, device.load, device.function, device.launch}
    while True:
        head = requests.read(64)
        if len(head) < 64: return
        numbers = struct.unpack("<8Q", head)
        operation = operations[numbers[0]]
        data = (requests.read(numbers[7]),) if operation in has_bytes else ()
        status, value, *rest = operation(*numbers[1:], *data)
        replies.write(struct.pack("<2Q", status, value) + b"".join(rest))
        replies.flush()


if __name__ == "__main__":
    main()
