# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Buffers for kernels on the emulator, each inside a larger block (tests/python/canary.py): NaNs around what is only read, a pattern around everything else. The block
itself ends against pages without access. With 0 bytes around it is the buffer that ends there, so that a load beyond its end stops the run."""
import ctypes, os, struct, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
from canary import AROUND, Canary


class Buffer:
    """`data`: what it holds; None: `size` bytes of poison. `pointer` is the kernel's argument."""

    def __init__(self, driver, name, element, data=None, size=0, poison=0, around=AROUND, is_read=False, align=16):
        data = bytes([poison]) * size if data is None else data
        self.name, self.layout = name, Canary(element, 1, len(data) // element, before=around, after=around, is_read=is_read)
        block = self.layout.pattern()
        block[around:around + len(data)] = data
        self.size, self.kept = len(data), driver.Buf(data=block, readonly=is_read, align=align)
        self.address, self.zones = self.kept.addr + around, (bytes(block[:around]), bytes(block[len(block) - around:]))
        self.pointer = struct.pack("<Q", self.address)

    def bytes(self): return ctypes.string_at(self.address, self.size)

    def written_outside(self):
        """What has been written around it, or nothing."""
        at = self.kept.dirty()
        if at is not None: return "%s: byte %d of its pages is written" % (self.name, at)
        around = len(self.zones[0])
        if (ctypes.string_at(self.address - around, around), ctypes.string_at(self.address + self.size, around)) == self.zones: return ""
        return self.layout.check(self.name, self.kept.bytes())
